"""Containers of core/v1 pods, and their status."""

from typing import Any

from attrs import field, frozen

from gpuruntime.meta.frozen_mapping import EMPTY, FrozenDict
from gpuruntime.meta.structs import Struct, wire

__all__ = [
    "Container",
    "ContainerPort",
    "ContainerResourceClaim",
    "ContainerState",
    "ContainerStateRunning",
    "ContainerStateTerminated",
    "ContainerStateWaiting",
    "ContainerStatus",
    "EnvFromSource",
    "EnvSource",
    "EnvVar",
    "ResourceRequirements",
    "VolumeMount",
]


@frozen
class EnvVar(Struct):
    name: str
    value: str | None = field(default=None, metadata=wire(sensitive=True))
    value_from: FrozenDict[str, Any] | None = None


@frozen
class EnvSource(Struct):
    """The ConfigMap or Secret that an EnvFromSource reads."""

    name: str = ""
    optional: bool | None = None


@frozen
class EnvFromSource(Struct):
    prefix: str | None = None
    config_map_ref: EnvSource | None = None
    secret_ref: EnvSource | None = None


@frozen
class ContainerPort(Struct):
    container_port: int
    name: str | None = None
    protocol: str | None = None
    host_port: int | None = None
    host_ip: str | None = field(default=None, metadata=wire("hostIP"))


@frozen
class VolumeMount(Struct):
    name: str
    mount_path: str
    read_only: bool | None = None
    sub_path: str | None = None


@frozen
class ContainerResourceClaim(Struct):
    name: str
    request: str | None = None


@frozen
class ResourceRequirements(Struct):
    """Quantities are strings, or integers if a manifest has them without quotes; see `parse_quantity`."""

    requests: FrozenDict[str, int | str] = EMPTY
    limits: FrozenDict[str, int | str] = EMPTY
    claims: tuple[ContainerResourceClaim, ...] = ()


@frozen
class Container(Struct):
    name: str
    image: str | None = None
    image_pull_policy: str | None = None
    command: tuple[str, ...] = field(default=(), metadata=wire(sensitive=True))
    args: tuple[str, ...] = field(default=(), metadata=wire(sensitive=True))
    working_dir: str | None = None
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[EnvFromSource, ...] = ()
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements | None = None
    volume_mounts: tuple[VolumeMount, ...] = ()
    liveness_probe: FrozenDict[str, Any] | None = None
    readiness_probe: FrozenDict[str, Any] | None = None
    startup_probe: FrozenDict[str, Any] | None = None
    lifecycle: FrozenDict[str, Any] | None = None
    termination_message_policy: str | None = None
    security_context: FrozenDict[str, Any] | None = None
    restart_policy: str | None = None


@frozen
class ContainerStateWaiting(Struct):
    reason: str | None = None
    message: str | None = None


@frozen
class ContainerStateRunning(Struct):
    started_at: str | None = None


@frozen
class ContainerStateTerminated(Struct):
    exit_code: int
    signal: int | None = None
    reason: str | None = None
    message: str | None = None
    started_at: str | None = None
    finished_at: str | None = None
    container_id: str | None = field(default=None, metadata=wire("containerID"))


@frozen
class ContainerState(Struct):
    """At most one is set; none means waiting."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


@frozen
class ContainerStatus(Struct):
    name: str
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    image: str = ""
    image_id: str = field(default="", metadata=wire("imageID"))
    container_id: str | None = field(default=None, metadata=wire("containerID"))
    state: ContainerState = field(default=ContainerState())
    last_state: ContainerState = field(default=ContainerState())
