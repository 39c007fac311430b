"""A predicate for statuses that another client wrote: a restored backup without status, a manual edit.

A reconciler ignores its own status writes, each of which has a new `lastSyncTime`. A status that changed without one is
foreign, and is written again.
"""

from gpuruntime.api.gpufunction import GPUFunction
from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.stockpool import StockPool
from gpuruntime.control import Change

__all__ = ["status_touched"]


def status_touched(change: Change[GPUUnit] | Change[StockPool] | Change[GPUStorage] | Change[GPUFunction]) -> bool:
    """Whether a status was changed or wiped without a new time.

    Two writes of a reconciler within one second look alike: then it runs once more, and finds nothing to do.
    """
    if change.before is None or change.after is None:
        return False
    before, after = change.before.status, change.after.status
    return before != after and after.last_sync_time in {None, before.last_sync_time}
