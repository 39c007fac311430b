"""Why a write is not even tried; each says what to do about it."""

from collections.abc import Iterable
from typing import Final

from gpuruntime.meta.objects import KubeObject, OwnerReference

__all__ = [
    "BeingDeletedError",
    "ForeignObjectError",
    "ImmutableDifferenceError",
    "StaleOwnerError",
    "WriteRefusedError",
]


class WriteRefusedError(Exception):
    """We did not touch the object; `object` is the state that was seen."""

    def __init__(self, obj: KubeObject, message: str) -> None:
        super().__init__(obj, message)
        self.object: Final = obj
        self.message: Final = message

    def __str__(self) -> str:
        return f"{self.object.kind.kind} {self.object.key} {self.message}"


class ForeignObjectError(WriteRefusedError):
    """The object is somebody else's, or nobody's; `found` is its controller. It stays so until somebody acts.

    `mark` is the annotation by which our own would be known, and `marked` its value.
    """

    def __init__(
        self,
        obj: KubeObject,
        found: OwnerReference | None,
        owner: KubeObject | None,
        *,
        mark: str = "",
        marked: str = "",
    ) -> None:
        expected = f"{owner.kind.kind} {owner.key}" if owner is not None else "nobody"
        who = "nobody" if found is None else f"{found.kind} {found.name} (uid {found.uid})"
        is_free = not marked and (found is None or (owner is not None and found.uid == owner.metadata.uid))
        what = "adopt it, delete it, or use another name" if is_free else "delete it, or use another name"
        state = f"is controlled by {who}, expected {expected}"
        if owner is None and found is None:
            state = "was not written by us"
        elif owner is not None and mark:
            state = (
                f"is controlled by {who} and has {marked or 'nothing'} in its annotation {mark}, expected "
                f"{owner.metadata.uid} of {expected}"
            )
        super().__init__(obj, f"{state}; it is left alone: {what}")
        self.found: Final = found


class StaleOwnerError(WriteRefusedError):
    """The object belongs to a namesake of the owner that is gone; `uid` is that of the namesake. The garbage collector
    removes it, if it has its owner reference still. Try again then.
    """

    def __init__(self, obj: KubeObject, uid: str, owner: KubeObject) -> None:
        super().__init__(
            obj,
            f"belongs to an earlier {owner.kind.kind} {owner.key.name} (uid {uid}), expected the one with uid "
            f"{owner.metadata.uid}; it goes with its owner: try again when it is gone",
        )
        self.uid: Final = uid


class BeingDeletedError(WriteRefusedError):
    """The object is on its way out. Try again when it is gone."""

    def __init__(self, obj: KubeObject) -> None:
        holders = ", ".join(obj.metadata.finalizers)
        waits = f", which waits for {holders}" if holders else ""
        super().__init__(
            obj,
            f"is being deleted since {obj.metadata.deletion_timestamp}{waits}; it is left alone: "
            "try again when it is gone",
        )


class ImmutableDifferenceError(WriteRefusedError):
    """The object differs where the API server allows no change; `paths` says where. Trying again does not help."""

    def __init__(self, obj: KubeObject, paths: Iterable[str]) -> None:
        self.paths: Final = tuple(paths)
        super().__init__(
            obj,
            f"differs in {', '.join(self.paths)}, which cannot be changed after creation; "
            "delete it so that it is made again, or desire what it has",
        )
