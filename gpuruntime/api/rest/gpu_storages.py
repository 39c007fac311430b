"""Bodies and views of /gpu-storages. Bodies have the validation rules of the custom resource."""

from attrs import field, frozen

from gpuruntime.api.gpustorage import AccessorStatus, PrepareStatus, ResizeStatus, StorageSettings
from gpuruntime.api.projection import patch_of, view_of
from gpuruntime.api.rest.objects import Namespace, ObjectView
from gpuruntime.api.storage_mount import StorageName
from gpuruntime.meta import Struct

__all__ = ["CreateStorageBody", "RecoverStorageBody", "StorageView", "UpdateStorageBody"]


@frozen
class CreateStorageBody(StorageSettings):
    """A storage: a volume that one unit at a time can mount, and that outlives its units."""

    name: StorageName = field(kw_only=True)
    """Name of the storage."""
    namespace: Namespace | None = None
    """Namespace of the storage and of the units that mount it. Defaults to the first namespace of active units."""


@frozen(field_transformer=patch_of(StorageSettings))
class UpdateStorageBody(Struct):
    """The fields to change, as a merge patch: omitted fields keep their values, null removes a value. The size, the
    accessor and the VolumeAttributesClass can change; the others are accepted only with the values that they have.
    """


@frozen
class RecoverStorageBody(Struct):
    """How to repeat the preparation."""

    wipe: bool = True
    """Whether everything on the volume is deleted first. With false the program finds what the last attempt left."""


@frozen(field_transformer=view_of(StorageSettings))
class StorageView(ObjectView, StorageSettings):
    """Spec and status of a storage. Fields without a value are omitted."""

    capacity: int | str | None = None
    """Capacity of the volume."""
    claim_name: str | None = None
    """Name of the PersistentVolumeClaim."""
    attached_to: str | None = None
    """The unit or storage that has it exclusively, such as gpuunits/demo."""
    mounted_by: tuple[str, ...] = ()
    """Names of the units that mount it, sorted."""
    prepare_status: PrepareStatus | None = None
    """Progress of the preparation."""
    resize: ResizeStatus | None = None
    """Progress of a change of the size."""
    accessor_status: AccessorStatus | None = None
    """State of the accessor."""
    deleting: bool | None = None
    """True while the storage is being deleted: until its volume is gone."""
