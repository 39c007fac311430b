"""Errors of writes that are refused before any request; each message says what to do."""

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
    """The object was not modified; `object` is its observed state."""

    def __init__(self, obj: KubeObject, message: str) -> None:
        super().__init__(obj, message)
        self.object: Final = obj
        self.message: Final = message

    def __str__(self) -> str:
        return f"{self.object.kind.kind} {self.object.key} {self.message}"


class ForeignObjectError(WriteRefusedError):
    """The object was not written by us or has another controller, `found`. A retry does not help.

    `annotation` is the ownership annotation, and `recorded` its value on the object.
    """

    def __init__(
        self,
        obj: KubeObject,
        found: OwnerReference | None,
        owner: KubeObject | None,
        *,
        annotation: str = "",
        recorded: str = "",
    ) -> None:
        expected = f"{owner.kind.kind} {owner.key}" if owner is not None else "no controller"
        problem = (
            "has no controller" if found is None else f"is controlled by {found.kind} {found.name} (uid {found.uid})"
        )
        if owner is not None and annotation:
            value = f"is {recorded}" if recorded else "is not set"
            problem = f"{problem} and its annotation {annotation} {value}, expected {owner.metadata.uid} of {expected}"
        elif owner is None and found is None:
            problem = "was not written by us"
        else:
            problem = f"{problem}, expected {expected}"
        is_free = not recorded and (found is None or (owner is not None and found.uid == owner.metadata.uid))
        advice = "adopt it, delete it, or use another name" if is_free else "delete it, or use another name"
        super().__init__(obj, f"{problem}; not modified: {advice}")
        self.found: Final = found


class StaleOwnerError(WriteRefusedError):
    """The object belongs to a deleted owner of the same name, with this `uid`. Retry when it is gone.

    The garbage collector deletes it, if it still has its owner reference.
    """

    def __init__(self, obj: KubeObject, uid: str, owner: KubeObject) -> None:
        super().__init__(
            obj,
            f"belongs to an earlier {owner.kind.kind} {owner.key.name} (uid {uid}), expected the one with uid "
            f"{owner.metadata.uid}; the garbage collector deletes it: retry when it is gone",
        )
        self.uid: Final = uid


class BeingDeletedError(WriteRefusedError):
    """The object is being deleted. Retry when it is gone."""

    def __init__(self, obj: KubeObject) -> None:
        holders = ", ".join(obj.metadata.finalizers)
        waits = f", waiting for finalizers {holders}" if holders else ""
        super().__init__(
            obj,
            f"has been terminating since {obj.metadata.deletion_timestamp}{waits}; not modified: retry when it is gone",
        )


class ImmutableDifferenceError(WriteRefusedError):
    """The object differs in immutable fields, `paths`. A retry does not help."""

    def __init__(self, obj: KubeObject, paths: Iterable[str]) -> None:
        self.paths: Final = tuple(paths)
        super().__init__(
            obj,
            f"differs in immutable fields: {', '.join(self.paths)}; "
            "delete it so that it is created again, or desire the current values",
        )
