"""Status conditions: `metav1.Condition`, and pure functions over tuples of them.

Decoding is lenient, because the conditions of pods and nodes may lack reason and message. What is written is validated
by `set_condition`, and by the API server: in CRDs the rules are those of `metav1.Condition`, and a list of conditions
is a map by type.
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
    """A condition that the API server would reject."""


@frozen
class Condition(Struct):
    """Condition contains details for one aspect of the current state of this object."""

    type: Annotated[str, Length(maximum=_TYPE_LIMIT), Pattern(_TYPE)]
    """Type of the condition, such as Ready."""
    status: ConditionStatus
    """Status of the condition: True, False or Unknown."""
    reason: Annotated[str, Required(), Length(minimum=1, maximum=_REASON_LIMIT), Pattern(_REASON)] = ""
    """Programmatic identifier of the reason for the last transition, in CamelCase."""
    message: Annotated[str | None, Required(), Length(maximum=_MESSAGE_LIMIT)] = None
    """Human-readable details about the transition."""
    last_transition_time: Annotated[str | None, Required(), Format("date-time")] = None
    """Time of the last change of the status."""
    observed_generation: Annotated[int | None, Range(minimum=0)] = None
    """The metadata.generation that the condition was set for."""


def find_condition(conditions: tuple[Condition, ...], type_: str) -> Condition | None:
    return next((condition for condition in conditions if condition.type == type_), None)


def is_true(conditions: tuple[Condition, ...], type_: str) -> bool:
    """Whether the condition exists and is "True"."""
    found = find_condition(conditions, type_)
    return found is not None and found.status == "True"


def set_condition(conditions: tuple[Condition, ...], condition: Condition, now: datetime) -> tuple[Condition, ...]:
    """The conditions with this one replacing that of the same type, or appended.

    Guarantees: the transition time is kept unless the status changes, and is `now` then, whatever `condition` has. The
    order and unknown fields are kept. A missing message becomes "", because the field is required, and a message that
    is too long for the server is truncated. If nothing changes, the identical tuple is returned.

    Raises:
        ConditionError: `metav1.Condition` does not allow the type, the status or the reason.
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
    """The conditions without those of this type; the identical tuple if there is none."""
    kept = tuple(condition for condition in conditions if condition.type != type_)
    return conditions if len(kept) == len(conditions) else kept


def _check(condition: Condition) -> None:
    type_, reason, status = condition.type, condition.reason, condition.status
    if len(type_) > _TYPE_LIMIT or not _fits(_TYPE, type_):
        raise ConditionError(f"expected a condition type such as Ready or example.org/Ready, got {type_[:80]!r}")
    if status not in get_args(ConditionStatus):
        raise ConditionError(
            f"expected the string 'True', 'False' or 'Unknown' as status of condition {type_}, got {status!r}"
        )
    if len(reason) > _REASON_LIMIT or not _fits(_REASON, reason):
        raise ConditionError(f"expected a CamelCase word as reason of condition {type_}, got {reason[:80]!r}")


def _fits(pattern: str, text: str) -> bool:
    # `$` alone would allow a line feed at the end.
    return re.search(pattern, text) is not None and not text.endswith("\n")
