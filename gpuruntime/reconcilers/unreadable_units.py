"""Units that cannot be read: stored under other rules than today's, or for another version of the operator.

What such a unit asks for is not known. So its children stay as they are, and its status says why nothing happens.
"""

from datetime import datetime

from attrs import evolve

from gpuruntime.api.gpuunit import GPUUnitStatus
from gpuruntime.api.reasons import INVALID_SPEC, READY_CONDITION, phase_of
from gpuruntime.desired.problems import TOLD_LIMIT
from gpuruntime.meta import Condition, DecodeError, DynamicObject, decode, format_seconds, set_condition, thaw

__all__ = ["status_of", "unreadable_status"]


def status_of(stored: DynamicObject) -> GPUUnitStatus:
    """The status that a unit has; an empty one if that cannot be read, either."""
    try:
        return decode(GPUUnitStatus, thaw(stored.body.get("status") or {}))
    except DecodeError:
        return GPUUnitStatus()


def unreadable_status(stored: DynamicObject, fault: str, now: datetime) -> GPUUnitStatus:
    """The status of a unit whose spec cannot be read: what it says of the children is left as it is.

    It is equal to the one that the unit has, if that says so already.
    """
    before = status_of(stored)
    condition = Condition(
        READY_CONDITION, "False", INVALID_SPEC, fault[:TOLD_LIMIT], observed_generation=stored.metadata.generation
    )
    after = evolve(before, phase=phase_of(INVALID_SPEC), conditions=set_condition(before.conditions, condition, now))
    return before if after == before else evolve(after, last_sync_time=format_seconds(now))
