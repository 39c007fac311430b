"""Units that cannot be decoded: stored under an earlier schema, or for another version of the operator.

Their spec is unknown. So their children stay as they are, and the status says why nothing happens.
"""

from datetime import datetime

from attrs import evolve

from gpuruntime.api.gpuunit import GPUUnitStatus
from gpuruntime.api.reasons import INVALID_SPEC, READY_CONDITION, phase_of
from gpuruntime.desired.validation import MESSAGE_LIMIT
from gpuruntime.meta import Condition, DecodeError, DynamicObject, decode, format_seconds, set_condition, thaw

__all__ = ["status_of", "unreadable_status"]


def status_of(stored: DynamicObject) -> GPUUnitStatus:
    """The status of a unit; an empty one if it cannot be decoded either."""
    try:
        return decode(GPUUnitStatus, thaw(stored.body.get("status") or {}))
    except DecodeError:
        return GPUUnitStatus()


def unreadable_status(stored: DynamicObject, fault: str, now: datetime) -> GPUUnitStatus:
    """The status of a unit whose spec cannot be decoded; what it says about the children stays.

    It equals the present status if that says so already.
    """
    before = status_of(stored)
    condition = Condition(
        READY_CONDITION, "False", INVALID_SPEC, fault[:MESSAGE_LIMIT], observed_generation=stored.metadata.generation
    )
    after = evolve(before, phase=phase_of(INVALID_SPEC), conditions=set_condition(before.conditions, condition, now))
    return before if after == before else evolve(after, last_sync_time=format_seconds(now))
