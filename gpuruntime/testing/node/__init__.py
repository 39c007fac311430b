"""Real nodes: a kubelet and containerd on this machine, in namespaces that die with their owner."""
