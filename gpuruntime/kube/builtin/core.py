"""core/v1: Namespace, Service, Secret, ConfigMap, ServiceAccount, ResourceQuota."""

from attrs import field, frozen

from gpuruntime.kube.builtin.pods import LocalObjectReference
from gpuruntime.meta.conditions import Condition
from gpuruntime.meta.frozen_mapping import EMPTY, FrozenDict
from gpuruntime.meta.identity import ResourceKind
from gpuruntime.meta.objects import TypedObject
from gpuruntime.meta.structs import Struct, wire

__all__ = [
    "ConfigMap",
    "LoadBalancerIngress",
    "LoadBalancerStatus",
    "Namespace",
    "NamespaceSpec",
    "NamespaceStatus",
    "ResourceQuota",
    "ResourceQuotaSpec",
    "ResourceQuotaStatus",
    "Secret",
    "Service",
    "ServiceAccount",
    "ServicePort",
    "ServiceSpec",
    "ServiceStatus",
]


@frozen
class NamespaceSpec(Struct):
    finalizers: tuple[str, ...] = ()


@frozen
class NamespaceStatus(Struct):
    phase: str | None = None
    conditions: tuple[Condition, ...] = ()


@frozen
class Namespace(TypedObject):
    KIND = ResourceKind("", "v1", "Namespace", "namespaces", namespaced=False)

    spec: NamespaceSpec = field(default=NamespaceSpec())
    status: NamespaceStatus = field(default=NamespaceStatus())


@frozen
class ServicePort(Struct):
    port: int
    name: str | None = None
    protocol: str | None = None
    app_protocol: str | None = None
    target_port: int | str | None = None
    node_port: int | None = None


@frozen
class ServiceSpec(Struct):
    type: str | None = None
    selector: FrozenDict[str, str] = EMPTY
    ports: tuple[ServicePort, ...] = ()
    cluster_ip: str | None = field(default=None, metadata=wire("clusterIP"))
    cluster_ips: tuple[str, ...] = field(default=(), metadata=wire("clusterIPs"))
    external_ips: tuple[str, ...] = field(default=(), metadata=wire("externalIPs"))
    external_name: str | None = None
    external_traffic_policy: str | None = None
    internal_traffic_policy: str | None = None
    load_balancer_class: str | None = None
    load_balancer_source_ranges: tuple[str, ...] = ()
    session_affinity: str | None = None
    publish_not_ready_addresses: bool | None = None
    ip_families: tuple[str, ...] = ()
    ip_family_policy: str | None = None


@frozen
class LoadBalancerIngress(Struct):
    ip: str | None = None
    hostname: str | None = None


@frozen
class LoadBalancerStatus(Struct):
    ingress: tuple[LoadBalancerIngress, ...] = ()


@frozen
class ServiceStatus(Struct):
    load_balancer: LoadBalancerStatus = field(default=LoadBalancerStatus())
    conditions: tuple[Condition, ...] = ()


@frozen
class Service(TypedObject):
    KIND = ResourceKind("", "v1", "Service", "services", namespaced=True)

    spec: ServiceSpec = field(default=ServiceSpec())
    status: ServiceStatus = field(default=ServiceStatus())


@frozen
class Secret(TypedObject):
    """`data` is base64 text, as on the wire; `string_data` is write-only. The repr shows neither."""

    KIND = ResourceKind("", "v1", "Secret", "secrets", namespaced=True)

    type: str | None = None
    data: FrozenDict[str, str] = field(default=EMPTY, metadata=wire(sensitive=True))
    string_data: FrozenDict[str, str] = field(default=EMPTY, metadata=wire(sensitive=True))
    immutable: bool | None = None


@frozen
class ConfigMap(TypedObject):
    """`binary_data` is base64 text, as on the wire."""

    KIND = ResourceKind("", "v1", "ConfigMap", "configmaps", namespaced=True)

    data: FrozenDict[str, str] = EMPTY
    binary_data: FrozenDict[str, str] = EMPTY
    immutable: bool | None = None


@frozen
class ServiceAccount(TypedObject):
    KIND = ResourceKind("", "v1", "ServiceAccount", "serviceaccounts", namespaced=True)

    image_pull_secrets: tuple[LocalObjectReference, ...] = ()
    automount_service_account_token: bool | None = None


@frozen
class ResourceQuotaSpec(Struct):
    hard: FrozenDict[str, int | str] = EMPTY
    scopes: tuple[str, ...] = ()


@frozen
class ResourceQuotaStatus(Struct):
    hard: FrozenDict[str, int | str] = EMPTY
    used: FrozenDict[str, int | str] = EMPTY


@frozen
class ResourceQuota(TypedObject):
    KIND = ResourceKind("", "v1", "ResourceQuota", "resourcequotas", namespaced=True)

    spec: ResourceQuotaSpec = field(default=ResourceQuotaSpec())
    status: ResourceQuotaStatus = field(default=ResourceQuotaStatus())
