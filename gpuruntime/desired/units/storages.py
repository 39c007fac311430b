"""The storages of a unit in its pod: a volume and a mount for each, in the order of the spec, and one pod at a time."""

from collections.abc import Sequence
from typing import Any, Final

from gpuruntime.api.names import UNIT_LABEL, label_value
from gpuruntime.api.storage_mount import StorageMount
from gpuruntime.kube.builtin.containers import VolumeMount
from gpuruntime.kube.builtin.volumes import ClaimVolumeSource, Volume
from gpuruntime.meta import FrozenDict, freeze

__all__ = ["one_writer", "storage_mounts", "storage_volumes"]

# A label of every node, with the same value on all nodes that can run the pod: together they are one place.
_EVERYWHERE: Final = "kubernetes.io/os"


def one_writer(unit: str, mounts: Sequence[StorageMount]) -> FrozenDict[str, Any] | None:
    """The affinity of a unit's pods, None if they write to no storage.

    A ReplicaSet replaces a pod that was deleted or evicted at once, while that may still write. The scheduler keeps the
    new one waiting until it is gone, on every node.
    """
    if all(mount.read_only for mount in mounts):
        return None
    term = {"topologyKey": _EVERYWHERE, "labelSelector": {"matchLabels": {UNIT_LABEL: label_value(unit)}}}
    apart: FrozenDict[str, Any] = freeze(
        {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    )
    return apart


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
