"""Volumes of core/v1 pods, and PersistentVolumeClaim."""

from attrs import field, frozen

from gpuruntime.meta.conditions import Condition
from gpuruntime.meta.frozen_mapping import EMPTY, FrozenDict
from gpuruntime.meta.identity import ResourceKind
from gpuruntime.meta.label_selectors import LabelSelector
from gpuruntime.meta.objects import TypedObject
from gpuruntime.meta.structs import Struct

__all__ = [
    "ClaimVolumeSource",
    "ConfigMapVolumeSource",
    "EmptyDirVolumeSource",
    "HostPathVolumeSource",
    "KeyToPath",
    "PersistentVolumeClaim",
    "PersistentVolumeClaimSpec",
    "PersistentVolumeClaimStatus",
    "SecretVolumeSource",
    "Volume",
    "VolumeDataSource",
    "VolumeResources",
]


@frozen
class KeyToPath(Struct):
    key: str
    path: str
    mode: int | None = None


@frozen
class ConfigMapVolumeSource(Struct):
    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int | None = None
    optional: bool | None = None


@frozen
class SecretVolumeSource(Struct):
    secret_name: str | None = None
    items: tuple[KeyToPath, ...] = ()
    default_mode: int | None = None
    optional: bool | None = None


@frozen
class EmptyDirVolumeSource(Struct):
    medium: str | None = None
    size_limit: int | str | None = None


@frozen
class HostPathVolumeSource(Struct):
    path: str
    type: str | None = None


@frozen
class ClaimVolumeSource(Struct):
    claim_name: str
    read_only: bool | None = None


@frozen
class Volume(Struct):
    """A name and one source. Sources without a type here (projected, csi, ...) are in `extra`."""

    name: str
    config_map: ConfigMapVolumeSource | None = None
    secret: SecretVolumeSource | None = None
    empty_dir: EmptyDirVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None
    persistent_volume_claim: ClaimVolumeSource | None = None


@frozen
class VolumeResources(Struct):
    requests: FrozenDict[str, int | str] = EMPTY
    limits: FrozenDict[str, int | str] = EMPTY


@frozen
class VolumeDataSource(Struct):
    """What a new volume is filled with: a snapshot, or a PersistentVolumeClaim of the same namespace."""

    kind: str
    name: str
    api_group: str | None = None


@frozen
class PersistentVolumeClaimSpec(Struct):
    access_modes: tuple[str, ...] = ()
    resources: VolumeResources | None = None
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_name: str | None = None
    selector: LabelSelector | None = None
    data_source: VolumeDataSource | None = None
    volume_attributes_class_name: str | None = None


@frozen
class PersistentVolumeClaimStatus(Struct):
    phase: str | None = None
    access_modes: tuple[str, ...] = ()
    capacity: FrozenDict[str, int | str] = EMPTY
    allocated_resources: FrozenDict[str, int | str] = EMPTY
    allocated_resource_statuses: FrozenDict[str, str] = EMPTY
    conditions: tuple[Condition, ...] = ()


@frozen
class PersistentVolumeClaim(TypedObject):
    KIND = ResourceKind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", namespaced=True)

    spec: PersistentVolumeClaimSpec = field(default=PersistentVolumeClaimSpec())
    status: PersistentVolumeClaimStatus = field(default=PersistentVolumeClaimStatus())
