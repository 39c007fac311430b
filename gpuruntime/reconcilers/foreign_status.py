"""Noticing that somebody else wrote a status: a restored backup that has none, an edit by hand.

A reconciler does not look at an object because of its own status writes, of which each says a new `lastSyncTime`. A
status that changed otherwise is not its own, and is to be put right.
"""

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.stockpool import StockPool
from gpuruntime.control import Change

__all__ = ["status_touched"]


def status_touched(change: Change[GPUUnit] | Change[StockPool]) -> bool:
    """Whether a status was changed or wiped without a new time.

    Two writes of a reconciler within one second look alike: then it looks once more, and finds nothing to do.
    """
    if change.before is None or change.after is None:
        return False
    before, after = change.before.status, change.after.status
    return before != after and after.last_sync_time in {None, before.last_sync_time}
