"""Status conditions: `metav1.Condition`, and pure functions over tuples of them."""

import re
from datetime import datetime
from typing import Final, Literal

from attrs import evolve, frozen

from gpuruntime.meta.structs import Struct
from gpuruntime.meta.timestamps import format_seconds

__all__ = [
    "Condition",
    "ConditionError",
    "ConditionStatus",
    "find_condition",
    "is_true",
    "remove_condition",
    "set_condition",
]

ConditionStatus = Literal["True", "False", "Unknown"]

_REASON: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_REASON_LIMIT: Final = 1024


class ConditionError(ValueError):
    """A condition that the API server would refuse."""


@frozen
class Condition(Struct):
    """One aspect of an object's state. What was read is taken as it is; `set_condition` checks what is written.

    Pods and nodes have conditions of this shape too, in which reason and message may be absent.
    """

    type: str
    status: ConditionStatus
    reason: str = ""
    message: str | None = None
    last_transition_time: str | None = None
    observed_generation: int | None = None


def find_condition(conditions: tuple[Condition, ...], type_: str) -> Condition | None:
    return next((condition for condition in conditions if condition.type == type_), None)


def is_true(conditions: tuple[Condition, ...], type_: str) -> bool:
    """Whether the condition is there and "True"; a missing one is not."""
    found = find_condition(conditions, type_)
    return found is not None and found.status == "True"


def set_condition(conditions: tuple[Condition, ...], condition: Condition, now: datetime) -> tuple[Condition, ...]:
    """The conditions with this one in the place of its predecessor, or at the end.

    Guarantees: the transition time is the predecessor's unless the status differs, and then it is `now`, whatever
    `condition` says; the order is kept; fields of the predecessor that `Condition` does not know are kept; a missing
    message becomes "", as the field is required on the wire; if nothing changes, the result is the very tuple that was
    given.

    Raises:
        ConditionError: an empty type, or a reason that is not a CamelCase word as `metav1.Condition` demands.
    """
    if not condition.type:
        raise ConditionError("expected a condition type, got an empty string")
    if len(condition.reason) > _REASON_LIMIT or _REASON.fullmatch(condition.reason) is None:
        raise ConditionError(
            f"expected a CamelCase word as reason of condition {condition.type}, got {condition.reason[:80]!r}"
        )
    before = find_condition(conditions, condition.type)
    condition = evolve(condition, message=condition.message or "", last_transition_time=format_seconds(now))
    if before is None:
        return (*conditions, condition)
    after = evolve(condition, extra=before.extra | condition.extra)
    if before.status == condition.status and before.last_transition_time is not None:
        after = evolve(after, last_transition_time=before.last_transition_time)
    if after == before:
        return conditions
    return tuple(after if old is before else old for old in conditions)


def remove_condition(conditions: tuple[Condition, ...], type_: str) -> tuple[Condition, ...]:
    """The conditions without those of this type; the very tuple that was given if there is none."""
    kept = tuple(condition for condition in conditions if condition.type != type_)
    return conditions if len(kept) == len(conditions) else kept
