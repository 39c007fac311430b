"""networking.k8s.io/v1: NetworkPolicy."""

from attrs import field, frozen

from gpuruntime.meta.identity import ResourceKind
from gpuruntime.meta.label_selectors import LabelSelector
from gpuruntime.meta.objects import TypedObject
from gpuruntime.meta.structs import Struct

__all__ = [
    "IPBlock",
    "NetworkPolicy",
    "NetworkPolicyEgressRule",
    "NetworkPolicyIngressRule",
    "NetworkPolicyPeer",
    "NetworkPolicyPort",
    "NetworkPolicySpec",
]


@frozen
class IPBlock(Struct):
    cidr: str
    except_: tuple[str, ...] = ()


@frozen
class NetworkPolicyPeer(Struct):
    pod_selector: LabelSelector | None = None
    namespace_selector: LabelSelector | None = None
    ip_block: IPBlock | None = None


@frozen
class NetworkPolicyPort(Struct):
    protocol: str | None = None
    port: int | str | None = None
    end_port: int | None = None


@frozen
class NetworkPolicyIngressRule(Struct):
    """Without peers, from everywhere; without ports, to all of them."""

    from_: tuple[NetworkPolicyPeer, ...] = ()
    ports: tuple[NetworkPolicyPort, ...] = ()


@frozen
class NetworkPolicyEgressRule(Struct):
    """Without peers, to everywhere; without ports, to all of them."""

    to: tuple[NetworkPolicyPeer, ...] = ()
    ports: tuple[NetworkPolicyPort, ...] = ()


@frozen
class NetworkPolicySpec(Struct):
    """Without a pod selector, all pods of the namespace; without rules of a listed type, nothing passes that way."""

    pod_selector: LabelSelector = field(default=LabelSelector())
    policy_types: tuple[str, ...] = ()
    ingress: tuple[NetworkPolicyIngressRule, ...] = ()
    egress: tuple[NetworkPolicyEgressRule, ...] = ()


@frozen
class NetworkPolicy(TypedObject):
    KIND = ResourceKind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", namespaced=True)

    spec: NetworkPolicySpec = field(default=NetworkPolicySpec())
