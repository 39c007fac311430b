"""Status conditions: `metav1.Condition`, and pure functions over tuples of them.

What was read is taken as it is: pods and nodes have conditions of this shape in which reason and message may be absent.
What is written is checked by `set_condition`, and by the API server: in definitions, the rules are those of
`metav1.Condition`, and a list of conditions is a map by their type.
"""

import re
from datetime import datetime
from typing import Annotated, Final, Literal, get_args

from attrs import evolve, frozen

from gpuruntime.meta.rules import Format, Length, Pattern, Range, Required
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

_DOMAIN: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_TYPE: Final = rf"^({_DOMAIN}/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
_TYPE_LIMIT: Final = 316
_REASON: Final = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
_REASON_LIMIT: Final = 1024
_MESSAGE_LIMIT: Final = 32768
_CUT: Final = "..."


class ConditionError(ValueError):
    """A condition that the API server would refuse."""


@frozen
class Condition(Struct):
    """One aspect of the state of an object."""

    type: Annotated[str, Length(maximum=_TYPE_LIMIT), Pattern(_TYPE)]
    """What it is about, such as Ready."""
    status: ConditionStatus
    """Whether it is so."""
    reason: Annotated[str, Required(), Length(minimum=1, maximum=_REASON_LIMIT), Pattern(_REASON)] = ""
    """Why it came to be so, in one word for programs."""
    message: Annotated[str | None, Required(), Length(maximum=_MESSAGE_LIMIT)] = None
    """Details for people."""
    last_transition_time: Annotated[str | None, Required(), Format("date-time")] = None
    """When the status changed last."""
    observed_generation: Annotated[int | None, Range(minimum=0)] = None
    """The metadata.generation of the object that this is about."""


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
    message becomes "", as the field is required on the wire, and one that is too long for the server is cut; if nothing
    changes, the result is the very tuple that was given.

    Raises:
        ConditionError: a type, a status or a reason that `metav1.Condition` does not allow.
    """
    _check(condition)
    before = find_condition(conditions, condition.type)
    message = condition.message or ""
    if len(message) > _MESSAGE_LIMIT:
        message = message[: _MESSAGE_LIMIT - len(_CUT)] + _CUT
    condition = evolve(condition, message=message, last_transition_time=format_seconds(now))
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


def _check(condition: Condition) -> None:
    type_, reason, status = condition.type, condition.reason, condition.status
    if len(type_) > _TYPE_LIMIT or not _fits(_TYPE, type_):
        raise ConditionError(f"expected a condition type such as Ready or example.org/Ready, got {type_[:80]!r}")
    if status not in get_args(ConditionStatus):
        raise ConditionError(
            f"expected the text 'True', 'False' or 'Unknown' as status of condition {type_}, got {status!r}"
        )
    if len(reason) > _REASON_LIMIT or not _fits(_REASON, reason):
        raise ConditionError(f"expected a CamelCase word as reason of condition {type_}, got {reason[:80]!r}")


def _fits(pattern: str, text: str) -> bool:
    # `$` alone would allow a line feed at the end.
    return re.search(pattern, text) is not None and not text.endswith("\n")
