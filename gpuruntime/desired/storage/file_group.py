"""The group that owns the files of storages, so that programs of any user can write to them.

A new volume belongs to root. A pod with this `fsGroup` gets the group beside its own, and the kubelet gives the volume
to the group when it mounts it: a program that is not root can write, whatever user its image chooses. All pods that
mount storages have the same group, so what one unit wrote the next one can read. With `OnRootMismatch` only the first
mount of a volume changes files; later ones look at its root directory. Drivers without ownership, such as most network
file systems, ignore it.
"""

from typing import Any, Final

from gpuruntime.meta import FrozenDict, freeze

__all__ = ["FILE_GROUP", "FILE_GROUP_CONTEXT"]

FILE_GROUP: Final = 65532
"""The group `nonroot` of distroless images; in other images the GID is unused."""
FILE_GROUP_CONTEXT: Final[FrozenDict[str, Any]] = freeze(
    {"fsGroup": FILE_GROUP, "fsGroupChangePolicy": "OnRootMismatch"}
)
"""The security context of pods that mount a storage."""
