"""GPUStorage: data that outlives units, on a PersistentVolumeClaim of the same name."""

import re
from typing import Annotated, ClassVar, Final

from attrs import field, frozen

from gpuruntime.api.envelope import IMAGE_LENGTH, IMAGE_PATTERN
from gpuruntime.api.names import GROUP, VERSION
from gpuruntime.api.readiness import Argument
from gpuruntime.api.ready_columns import READY_MESSAGE, READY_REASON
from gpuruntime.api.storage_mount import StorageName
from gpuruntime.meta import (
    OBJECT_NAME,
    Cel,
    Column,
    Condition,
    Definition,
    Format,
    Immutable,
    Items,
    Length,
    MapOf,
    Pattern,
    QuantityRule,
    Range,
    ResourceKind,
    Rule,
    Struct,
    TypedObject,
    wire,
)

__all__ = [
    "READ_WRITE_MANY",
    "READ_WRITE_ONCE",
    "READ_WRITE_ONCE_POD",
    "AccessorStatus",
    "GPUStorage",
    "GPUStorageSpec",
    "GPUStorageStatus",
    "PrepareStatus",
    "ResizeStatus",
    "StorageAccessor",
    "StoragePrepare",
    "StorageSettings",
]

READ_WRITE_ONCE: Final = "ReadWriteOnce"
READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"
READ_WRITE_MANY: Final = "ReadWriteMany"

_LONGEST_COMMAND: Final = 256
_LONGEST_PREPARATION_SECONDS: Final = 30 * 24 * 3600
_DNS_LABEL: Final = re.compile("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_ClassName = Annotated[str | None, Length(minimum=1, maximum=253), OBJECT_NAME]
_Time = Annotated[str | None, Format("date-time")]


@frozen
class StoragePrepare(Struct):
    """What fills a new storage, once: a program of an image, or the content of another storage."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Cel(
            "has(self.fromImage) != has(self.fromStorageName)",
            message="exactly one of fromImage and fromStorageName must be set",
            check=lambda prepare: (prepare.from_image is None) != (prepare.from_storage_name is None),
            expected="exactly one of fromImage and fromStorageName",
        ),
        Cel(
            "!has(self.fromImage) || (has(self.command) && size(self.command) > 0)"
            " || (has(self.args) && size(self.args) > 0)",
            message="fromImage needs command or args",
            check=lambda prepare: prepare.from_image is None or bool(prepare.command or prepare.args),
            expected="command or args with fromImage: the program that writes to /workspace",
        ),
        Cel(
            "!has(self.fromStorageName) || ((!has(self.command) || size(self.command) == 0)"
            " && (!has(self.args) || size(self.args) == 0))",
            message="fromStorageName takes neither command nor args",
            check=lambda prepare: prepare.from_storage_name is None or not (prepare.command or prepare.args),
            expected="neither command nor args with fromStorageName",
        ),
    )

    from_image: Annotated[str | None, IMAGE_LENGTH, IMAGE_PATTERN] = None
    """Image whose program writes the data to /workspace. Needs command or args."""
    from_storage_name: StorageName | None = None
    """Storage of the same namespace whose content is copied. No unit may have it meanwhile."""
    command: Annotated[tuple[Argument, ...], Items(maximum=_LONGEST_COMMAND)] = field(
        default=(), metadata=wire(sensitive=True)
    )
    """The program that fills /workspace. Defaults to the entrypoint of the image. It is not run in a shell."""
    args: Annotated[tuple[Argument, ...], Items(maximum=_LONGEST_COMMAND)] = field(
        default=(), metadata=wire(sensitive=True)
    )
    """Arguments of the program."""
    timeout_seconds: Annotated[int | None, Range(minimum=1, maximum=_LONGEST_PREPARATION_SECONDS)] = None
    """Seconds from the start of an attempt's Job until it fails: its program is ended, and a recovery is required.
    Without it an attempt may take any time. It does not limit a clone, which has no program."""


@frozen
class StorageAccessor(Struct):
    """Read-only access to the files over HTTP, through the access gateway, while no unit excludes it."""

    enabled: bool = False
    """Whether the files can be browsed."""


@frozen
class StorageSettings(Struct):
    """What callers decide about a storage."""

    size: Annotated[int | str, QuantityRule(positive=True, minimum="1Mi", maximum="1Pi", example="100Gi")]
    """Requested size, such as 100Gi. It can grow if the StorageClass allows expansion, and never falls below the
    capacity."""
    storage_class_name: Annotated[_ClassName, Immutable()] = None
    """StorageClass of the volume. Defaults to that of the operator's config, else to that of the cluster. Immutable."""
    access_mode: Annotated[
        str,
        Pattern(f"^({READ_WRITE_ONCE}|{READ_WRITE_ONCE_POD}|{READ_WRITE_MANY})$"),
        Length(maximum=16),
        Immutable(),
    ] = READ_WRITE_ONCE
    """ReadWriteOnce, ReadWriteOncePod or ReadWriteMany. With ReadWriteMany any number of units can mount it read-only;
    ReadWriteOncePod excludes the accessor while a unit has it. Immutable."""
    volume_attributes_class_name: _ClassName = None
    """VolumeAttributesClass of the volume, for classes that have one."""
    prepare: Annotated[StoragePrepare | None, Immutable()] = None
    """What fills the storage before the first unit can mount it. It runs once. Immutable."""
    accessor: StorageAccessor = field(default=StorageAccessor())


@frozen
class GPUStorageSpec(StorageSettings):
    """Desired state of the storage."""

    adopt_claim_uid: Annotated[
        str | None, Length(minimum=1, maximum=64), Pattern("^[-0-9a-f]+$", description="a UID")
    ] = field(default=None, metadata=wire("adoptClaimUID"))
    """UID of an existing PersistentVolumeClaim of this name to take over with its data, after the record of a storage
    was lost. Only cluster administrators can set it: the REST API does not have it."""


@frozen
class PrepareStatus(Struct):
    """Progress of the preparation."""

    phase: str | None = None
    """NotRequested, Pending, Running, Succeeded or Failed."""
    job_name: str | None = None
    """Name of the Job of the last attempt. That of a failed attempt is kept for its logs."""
    observed_digest: str | None = None
    """Digest of the preparation that the phase is about."""
    attempts: Annotated[int, Range(minimum=0)] | None = None
    """Number of attempts so far. Only a recovery starts another one."""
    recovery_phase: str | None = None
    """None, Required, Running or Succeeded."""
    recovery_nonce: str | None = None
    """The recovery that requested the last attempt: over REST its operationID. A newer request has not begun yet."""
    message: str | None = None
    """Why the preparation waits or failed."""


@frozen
class ResizeStatus(Struct):
    """Progress of a change of the size."""

    phase: str | None = None
    """Growing, NeedsRestart (the file system grows when a pod mounts the volume next) or Refused."""
    message: str | None = None
    """The words of the PersistentVolumeClaim or of the API server."""


@frozen
class AccessorStatus(Struct):
    """State of the accessor."""

    phase: str | None = None
    """Disabled, Pending, Ready or Failed."""
    service_name: str | None = None
    """Name of the accessor's Service."""
    access_url: str | None = field(default=None, metadata=wire("accessURL"))
    """Path of the files at the access gateway."""
    message: str | None = None
    """Why it is not ready."""


@frozen
class GPUStorageStatus(Struct):
    """Observed state of the storage, written by the operator only. The Ready condition shows whether it can be mounted,
    and if not, why.
    """

    phase: str | None = None
    """Summary of the Ready condition: Ready, Pending or Failed."""
    claim_name: str | None = None
    """Name of the PersistentVolumeClaim."""
    capacity: Annotated[int | str | None, QuantityRule()] = None
    """Capacity of the volume."""
    attached_to: str | None = None
    """The unit or storage that has it exclusively, such as gpuunits/demo."""
    mounted_by: Annotated[tuple[str, ...], Items(maximum=10000)] = ()
    """Names of the units that mount it, sorted."""
    prepare: PrepareStatus | None = None
    resize: ResizeStatus | None = None
    accessor: AccessorStatus | None = None
    observed_generation: int | None = None
    """Most recent generation of the spec that the operator has applied."""
    last_sync_time: _Time = None
    """Time of the last status change. The status of an unchanged storage is not written, so this may be long ago."""
    conditions: Annotated[tuple[Condition, ...], MapOf("type")] = ()
    """Conditions of the storage: Ready (it can be mounted), Prepared, AccessorReady."""


@frozen
class GPUStorage(TypedObject):
    """GPUStorage is data that outlives units: a volume that one unit at a time can mount.

    Its data is on the PersistentVolumeClaim of the same name, and is deleted with the storage only.
    """

    KIND = ResourceKind(GROUP, VERSION, "GPUStorage", "gpustorages", namespaced=True)
    RULES: ClassVar[tuple[Rule, ...]] = (
        Cel(
            "size(self.metadata.name) <= 63 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
            message="metadata.name must be a DNS label: at most 63 lower-case letters, digits and '-'",
            # The server never stores an object without a name.
            check=lambda storage: not storage.metadata.name or _DNS_LABEL.fullmatch(storage.metadata.name) is not None,
            expected="a name that is a DNS label: at most 63 lower-case letters, digits and '-'",
        ),
        Cel(
            # A volume may be larger than requested, so only a smaller request than before is compared.
            "!quantity(string(self.spec.size)).isLessThan(quantity(string(oldSelf.spec.size)))"
            " || !has(self.status) || !has(self.status.capacity)"
            " || !quantity(string(self.spec.size)).isLessThan(quantity(string(self.status.capacity)))",
            message="spec.size must not be less than status.capacity: a volume cannot shrink",
            field_path=".spec.size",
        ),
        Cel(
            "!has(self.spec.prepare) || !has(self.spec.prepare.fromStorageName)"
            " || self.spec.prepare.fromStorageName != self.metadata.name",
            message="spec.prepare.fromStorageName must be another storage",
            field_path=".spec.prepare.fromStorageName",
            check=lambda storage: (
                storage.spec.prepare is None or storage.spec.prepare.from_storage_name != storage.metadata.name
            ),
            expected="another storage",
        ),
    )
    DEFINITION: ClassVar[Definition] = Definition(
        short_names=("gs",),
        categories=("gpuruntime",),
        columns=(
            Column("Size", ".spec.size", description="Requested size"),
            Column("Capacity", ".status.capacity", description="Capacity of the volume"),
            Column("Phase", ".status.phase", description="Ready, Pending or Failed"),
            READY_REASON,
            Column("Attached", ".status.attachedTo", description="Unit that has it exclusively"),
            Column("Age", ".metadata.creationTimestamp", type="date"),
            Column("Class", ".spec.storageClassName", priority=1, description="StorageClass in the spec"),
            Column("Prepare", ".status.prepare.phase", priority=1, description="Phase of the preparation"),
            Column("Accessor", ".status.accessor.phase", priority=1, description="Phase of the accessor"),
            READY_MESSAGE,
        ),
    )

    spec: GPUStorageSpec
    status: GPUStorageStatus = field(default=GPUStorageStatus())
