"""core/v1 Node."""

from attrs import field, frozen

from gpuruntime.meta.conditions import Condition
from gpuruntime.meta.frozen_mapping import EMPTY, FrozenDict
from gpuruntime.meta.identity import ResourceKind
from gpuruntime.meta.objects import TypedObject
from gpuruntime.meta.structs import Struct, wire

__all__ = ["Node", "NodeAddress", "NodeSpec", "NodeStatus", "Taint"]


@frozen
class Taint(Struct):
    key: str
    effect: str
    value: str | None = None
    time_added: str | None = None


@frozen
class NodeSpec(Struct):
    unschedulable: bool | None = None
    taints: tuple[Taint, ...] = ()
    provider_id: str | None = field(default=None, metadata=wire("providerID"))
    pod_cidr: str | None = field(default=None, metadata=wire("podCIDR"))


@frozen
class NodeAddress(Struct):
    type: str
    address: str


@frozen
class NodeStatus(Struct):
    capacity: FrozenDict[str, int | str] = EMPTY
    allocatable: FrozenDict[str, int | str] = EMPTY
    conditions: tuple[Condition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()


@frozen
class Node(TypedObject):
    KIND = ResourceKind("", "v1", "Node", "nodes", namespaced=False)

    spec: NodeSpec = field(default=NodeSpec())
    status: NodeStatus = field(default=NodeStatus())
