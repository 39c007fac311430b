"""Who uses the volume of a storage: the PersistentVolumeClaims that pods mount, and which mounts exclude others.

A claim that a pod only reads, of a storage that any number of nodes can mount, excludes no other. Every other mount
does, also a read-only one: two nodes cannot have the volume.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import frozen

from gpuruntime.api.gpustorage import READ_WRITE_MANY, GPUStorage
from gpuruntime.kube.builtin.volumes import Volume

__all__ = ["VolumeUse", "excludes_others", "uses_of_pod", "uses_of_template"]


@frozen
class VolumeUse:
    """A PersistentVolumeClaim that a pod mounts, and whether it can only read it."""

    claim: str
    read_only: bool = False


def uses_of_pod(spec: Mapping[str, Any]) -> tuple[VolumeUse, ...]:
    """The claims of a pod, from its spec as it is on the wire."""
    sources = (volume.get("persistentVolumeClaim") for volume in spec.get("volumes") or ())
    return tuple(VolumeUse(found["claimName"], bool(found.get("readOnly"))) for found in sources if found)


def uses_of_template(volumes: Iterable[Volume]) -> tuple[VolumeUse, ...]:
    """The claims of a pod template."""
    sources = (volume.persistent_volume_claim for volume in volumes)
    return tuple(VolumeUse(found.claim_name, bool(found.read_only)) for found in sources if found is not None)


def excludes_others(storage: GPUStorage, uses: Iterable[VolumeUse]) -> bool:
    """Whether one of these uses is of the storage's volume, and needs the lock."""
    is_shareable = storage.spec.access_mode == READ_WRITE_MANY
    return any(use.claim == storage.metadata.name and not (use.read_only and is_shareable) for use in uses)
