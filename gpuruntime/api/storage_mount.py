"""The storages that a unit mounts, and the rules of their paths."""

from typing import Annotated, Final

from attrs import frozen

from gpuruntime.meta import Cel, Items, Length, MapOf, Pattern, Struct

__all__ = ["RESERVED_PATHS", "StorageMount", "StorageMounts", "StorageName"]

RESERVED_PATHS: Final = ("/dev", "/proc", "/sys", "/var/run/secrets")
"""Directories in which nothing can be mounted, because the container runtime or the operator mounts there."""

_NAME_LENGTH: Final = 63
_PATH_LENGTH: Final = 256
_MOST_MOUNTS: Final = 16
# No ":" , which Kubernetes rejects; no empty part, no "." and no "..", so that equal directories have equal texts.
_PART: Final = r"(\.?[^/.:\x00-\x1f\x7f][^/:\x00-\x1f\x7f]*|\.\.[^/:\x00-\x1f\x7f]+)"

StorageName = Annotated[
    str,
    Length(minimum=1, maximum=_NAME_LENGTH),
    Pattern("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", description="a name of lower-case letters, digits and '-'"),
]
"""The name of a storage: a DNS label, because it is also a label value and a part of names."""


def _is_free(path: str) -> bool:
    return not any(f"{path}/".startswith(f"{reserved}/") for reserved in RESERVED_PATHS)


def _are_apart(mounts: "tuple[StorageMount, ...]") -> bool:
    paths = [f"{mount.mount_path}/" for mount in mounts]
    return not any(one.startswith(other) for i, one in enumerate(paths) for j, other in enumerate(paths) if i != j)


@frozen
class StorageMount(Struct):
    """A storage of the unit's namespace, mounted into its container."""

    name: StorageName
    """Name of the GPUStorage."""
    mount_path: Annotated[
        str,
        Length(minimum=2, maximum=_PATH_LENGTH),
        Pattern(f"^(/{_PART})+$", description="an absolute path without ':', '.', '..' and a slash at the end"),
        Cel(
            f"!{list(RESERVED_PATHS)}.exists(reserved, (self + '/').startsWith(reserved + '/'))",
            message=f"must not be in {', '.join(RESERVED_PATHS)}",
            check=_is_free,
            expected=f"a path that is not in {', '.join(RESERVED_PATHS)}",
        ),
    ]
    """Absolute path in the container. Mounts must not contain each other."""
    read_only: bool = False
    """Whether the container can only read it. Any number of units can mount a storage of accessMode ReadWriteMany
    read-only; every other mount is exclusive to one unit."""


StorageMounts = Annotated[
    tuple[StorageMount, ...],
    MapOf("name"),
    Items(maximum=_MOST_MOUNTS),
    Cel(
        "self.all(one, self.all(other, one.name == other.name"
        " || !(one.mountPath + '/').startsWith(other.mountPath + '/')))",
        message="mountPaths must differ, and none may contain another",
        check=_are_apart,
        expected="mountPaths that differ, none of which contains another",
    ),
]
"""The mounts of a unit."""
