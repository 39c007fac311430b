"""Real nodes: a kubelet and containerd on this machine, in namespaces that die with their owner.

    owner               the process that entered `RealNode`: certificates, configuration, Node object
      supervisor        of `processes`; stops the keeper when the owner ends
        keeper          holds the namespaces; removes link and cgroups when the node has ended
          unshare
            init        process 1 of the node: link, mounts, programs
              forwarder, containerd, registry, kube-proxy, kubelet, shims and containers

Who dies, and what happens then:

- a program: init starts it again after a second; after five ends within a minute, init ends;
- init or unshare: the kernel kills all processes of the node, and the keeper clears up and ends;
- the keeper: the kernel kills unshare, init and all processes; mounts and link go with their namespaces; empty cgroups
  stay, which the next node of this machine removes, because no process holds the node's number any more;
- the supervisor: the kernel kills the keeper, and so on;
- the owner: the supervisor stops the keeper, which clears up; a temporary directory goes. The Node stays in the cluster
  as NotReady until a node of the same name starts.
"""
