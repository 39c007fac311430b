"""core/v1 Pod, and the pod template that workloads share. Containers are in `gpuruntime.kube.builtin.containers`."""

from typing import Any

from attrs import field, frozen

from gpuruntime.kube.builtin.containers import Container, ContainerStatus
from gpuruntime.kube.builtin.volumes import Volume
from gpuruntime.meta.conditions import Condition
from gpuruntime.meta.frozen_mapping import EMPTY, FrozenDict
from gpuruntime.meta.identity import ResourceKind
from gpuruntime.meta.objects import ObjectMeta, TypedObject
from gpuruntime.meta.structs import Struct, wire

__all__ = [
    "LocalObjectReference",
    "Pod",
    "PodIP",
    "PodResourceClaim",
    "PodSchedulingGate",
    "PodSpec",
    "PodStatus",
    "PodTemplateSpec",
    "Toleration",
]


@frozen
class LocalObjectReference(Struct):
    name: str = ""


@frozen
class Toleration(Struct):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


@frozen
class PodResourceClaim(Struct):
    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


@frozen
class PodSchedulingGate(Struct):
    name: str


@frozen
class PodSpec(Struct):
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    node_name: str | None = None
    node_selector: FrozenDict[str, str] = EMPTY
    affinity: FrozenDict[str, Any] | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[FrozenDict[str, Any], ...] = ()
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    scheduler_name: str | None = None
    priority_class_name: str | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    runtime_class_name: str | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()
    service_account_name: str | None = None
    automount_service_account_token: bool | None = None
    image_pull_secrets: tuple[LocalObjectReference, ...] = ()
    security_context: FrozenDict[str, Any] | None = None
    restart_policy: str | None = None
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    hostname: str | None = None
    subdomain: str | None = None
    host_network: bool | None = None
    host_pid: bool | None = field(default=None, metadata=wire("hostPID"))
    host_ipc: bool | None = field(default=None, metadata=wire("hostIPC"))
    share_process_namespace: bool | None = None
    enable_service_links: bool | None = None


@frozen
class PodTemplateSpec(Struct):
    metadata: ObjectMeta = field(default=ObjectMeta())
    spec: PodSpec = field(default=PodSpec())


@frozen
class PodIP(Struct):
    ip: str = ""


@frozen
class PodStatus(Struct):
    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    conditions: tuple[Condition, ...] = ()
    pod_ip: str | None = field(default=None, metadata=wire("podIP"))
    pod_ips: tuple[PodIP, ...] = field(default=(), metadata=wire("podIPs"))
    host_ip: str | None = field(default=None, metadata=wire("hostIP"))
    nominated_node_name: str | None = None
    start_time: str | None = None
    qos_class: str | None = None
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


@frozen
class Pod(TypedObject):
    KIND = ResourceKind("", "v1", "Pod", "pods", namespaced=True)

    spec: PodSpec = field(default=PodSpec())
    status: PodStatus = field(default=PodStatus())
