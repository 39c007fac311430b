"""What was desired last of each object, so that the same wish is worked out once."""

from typing import Any, Final

from attrs import define, field, frozen

from gpuruntime.control.lru import LRU
from gpuruntime.control.writing.desired_state import OwnershipAnnotations, desired_body
from gpuruntime.meta.dynamic import DynamicObject
from gpuruntime.meta.identity import ObjectKey, ResourceKind
from gpuruntime.meta.objects import KubeObject, TypedObject

__all__ = ["DesiredState", "DesiredStateCache"]

_KEPT: Final = 2048
_WHAT_SAYS_IT: Final = (
    "uid",
    "generation",
    "annotations",
    "labels",
    "owner_references",
    "finalizers",
    "deletion_timestamp",
)


@define
class DesiredState:
    """A desired object with its owner, as it goes over the wire; `fulfilled` is the live object that was last found to
    be as desired, if one was. The body is not to be changed.
    """

    desired: TypedObject | DynamicObject
    owner: tuple[Any, ...] | None
    body: dict[str, Any]
    fulfilled: KubeObject | None = None

    def is_fulfilled_by(self, live: KubeObject) -> bool:
        """Whether an object is for certain as the one that was last found to be as desired.

        The server counts the states of all but metadata and status, where it counts at all.
        """
        if self.fulfilled is None or self.fulfilled is live:
            return self.fulfilled is live
        before, after = self.fulfilled.metadata, live.metadata
        return bool(after.generation) and all(getattr(before, name) == getattr(after, name) for name in _WHAT_SAYS_IT)


@frozen
class DesiredStateCache:
    """The wishes of one writer, at most 2,048 of them remembered.

    Objects are frozen: a wish is the same if its desired object is the very one of before.
    """

    marks: OwnershipAnnotations
    _known: LRU[tuple[ResourceKind, ObjectKey, str], DesiredState] = field(factory=lambda: LRU(_KEPT))

    def of(self, desired: TypedObject | DynamicObject, owner: KubeObject | None, mode: str) -> DesiredState:
        """The wish for an object.

        Raises:
            OwnerError: the owner cannot own it.
            ValueError: it has no name.
        """
        place = (desired.kind, desired.key, mode)
        who = None if owner is None else (owner.kind, owner.key, owner.metadata.uid)
        known = self._known.get(place)
        if known is not None and known.desired is desired and known.owner == who:
            return known
        wish = DesiredState(desired, who, self.marks.put_on(desired_body(desired, owner), owner))
        self._known.put(place, wish)
        return wish
