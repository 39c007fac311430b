"""The test kit: a real Kubernetes control plane on this machine, for the tests of any operator.

`LocalCluster` starts etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok with fake GPU nodes, and
leaves nothing behind. `LocalCluster(real_nodes=1)` and `RealNode` add a node that runs containers. Install
`gpuruntime[testing]` and request the fixtures of `gpuruntime.testing.plugin` in your tests: `kube_cluster`,
`kube_namespace`, `kube_nodes`, `kube_account`, `kube_audit`, `kube_volumes`, `kube_real_node`, `kube_images`,
`kube_local_workers`, `nats_server`. From a shell: `python -m gpuruntime.testing --help`.

Import the rest from its packages, which need aiohttp: `managers` runs a manager in the event loop of a test, `faults`
is a proxy that injects faults in front of the API server, `scripted` a scripted server in its place, `crashing` crashes
an operator at each of its writes, `permissions` compares granted permissions with used ones, `volumes` gives fake nodes
volumes with faults, `local_workers` runs functions for them, `nats` starts a NATS server.
"""

from gpuruntime.testing.cluster.access import ClusterAccess
from gpuruntime.testing.cluster.admin import AdminClient, RefusedError
from gpuruntime.testing.cluster.audit import AuditLog, Request
from gpuruntime.testing.cluster.fake_nodes import FakeNodes
from gpuruntime.testing.cluster.local import ClusterError, LocalCluster
from gpuruntime.testing.cluster.nodes import NodeShape, default_nodes
from gpuruntime.testing.node.real import NodeError, RealNode
from gpuruntime.testing.node.requirements import RealNodeUnavailableError, require_real_node

__all__ = [
    "AdminClient",
    "AuditLog",
    "ClusterAccess",
    "ClusterError",
    "FakeNodes",
    "LocalCluster",
    "NodeError",
    "NodeShape",
    "RealNode",
    "RealNodeUnavailableError",
    "RefusedError",
    "Request",
    "default_nodes",
    "require_real_node",
]
