"""The storages of a unit in its pod: a volume and a mount for each, in the order of the spec."""

from collections.abc import Sequence

from gpuruntime.api.storage_mount import StorageMount
from gpuruntime.kube.builtin.containers import VolumeMount
from gpuruntime.kube.builtin.volumes import ClaimVolumeSource, Volume

__all__ = ["storage_mounts", "storage_volumes"]


def storage_volumes(mounts: Sequence[StorageMount]) -> tuple[Volume, ...]:
    """The volumes: the PersistentVolumeClaim of a storage has the storage's name.

    A read-only mount is read-only in the volume too, so that the driver attaches it so, and the lock rules can tell.
    """
    return tuple(
        Volume(_volume_name(index), persistent_volume_claim=ClaimVolumeSource(mount.name, mount.read_only or None))
        for index, mount in enumerate(mounts)
    )


def storage_mounts(mounts: Sequence[StorageMount]) -> tuple[VolumeMount, ...]:
    """The mounts of the container."""
    return tuple(
        VolumeMount(_volume_name(index), mount.mount_path, mount.read_only or None)
        for index, mount in enumerate(mounts)
    )


def _volume_name(index: int) -> str:
    return f"storage-{index}"
