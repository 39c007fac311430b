"""networking.k8s.io/v1: Ingress, NetworkPolicy."""

from attrs import field, frozen

from gpuruntime.kube.builtin.core import LoadBalancerStatus
from gpuruntime.meta.identity import ResourceKind
from gpuruntime.meta.label_selectors import LabelSelector
from gpuruntime.meta.objects import TypedObject
from gpuruntime.meta.structs import Struct

__all__ = [
    "IPBlock",
    "Ingress",
    "IngressBackend",
    "IngressBackendResource",
    "IngressBackendService",
    "IngressHTTP",
    "IngressPath",
    "IngressRule",
    "IngressServicePort",
    "IngressSpec",
    "IngressStatus",
    "IngressTLS",
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
    """Without peers it allows all sources, without ports all ports."""

    from_: tuple[NetworkPolicyPeer, ...] = ()
    ports: tuple[NetworkPolicyPort, ...] = ()


@frozen
class NetworkPolicyEgressRule(Struct):
    """Without peers it allows all destinations, without ports all ports."""

    to: tuple[NetworkPolicyPeer, ...] = ()
    ports: tuple[NetworkPolicyPort, ...] = ()


@frozen
class NetworkPolicySpec(Struct):
    """An empty pod selector selects all pods of the namespace. A listed type without rules denies all traffic."""

    pod_selector: LabelSelector = field(default=LabelSelector())
    policy_types: tuple[str, ...] = ()
    ingress: tuple[NetworkPolicyIngressRule, ...] = ()
    egress: tuple[NetworkPolicyEgressRule, ...] = ()


@frozen
class NetworkPolicy(TypedObject):
    KIND = ResourceKind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", namespaced=True)

    spec: NetworkPolicySpec = field(default=NetworkPolicySpec())


@frozen
class IngressServicePort(Struct):
    """A port by name or by number."""

    name: str | None = None
    number: int | None = None


@frozen
class IngressBackendService(Struct):
    name: str
    port: IngressServicePort | None = None


@frozen
class IngressBackendResource(Struct):
    kind: str
    name: str
    api_group: str | None = None


@frozen
class IngressBackend(Struct):
    """A Service, or an object of another kind."""

    service: IngressBackendService | None = None
    resource: IngressBackendResource | None = None


@frozen
class IngressPath(Struct):
    backend: IngressBackend
    path_type: str
    path: str | None = None


@frozen
class IngressHTTP(Struct):
    paths: tuple[IngressPath, ...] = ()


@frozen
class IngressRule(Struct):
    host: str | None = None
    http: IngressHTTP | None = None


@frozen
class IngressTLS(Struct):
    hosts: tuple[str, ...] = ()
    secret_name: str | None = None


@frozen
class IngressSpec(Struct):
    ingress_class_name: str | None = None
    default_backend: IngressBackend | None = None
    rules: tuple[IngressRule, ...] = ()
    tls: tuple[IngressTLS, ...] = ()


@frozen
class IngressStatus(Struct):
    load_balancer: LoadBalancerStatus = field(default=LoadBalancerStatus())


@frozen
class Ingress(TypedObject):
    KIND = ResourceKind("networking.k8s.io", "v1", "Ingress", "ingresses", namespaced=True)

    spec: IngressSpec = field(default=IngressSpec())
    status: IngressStatus = field(default=IngressStatus())
