"""Stock units of a pool that fail: how many in a row, and when the next one is tried.

A unit that fails gives its place up to a new one after a while, because another node may do better. What is gone cannot
be counted any more, so the status of the pool keeps the count.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from attrs import frozen

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.reasons import FAILED, UNSCHEDULABLE
from gpuruntime.api.stockpool import StockPool, StockPoolStatus
from gpuruntime.desired.pool_units import is_ready_stock, reason_of, serial_of
from gpuruntime.desired.provenance import claim_of, provenance_of
from gpuruntime.meta import format_seconds, parse_timestamp

__all__ = ["FAILURES_UNTIL_STOP", "FailureRow", "failure_row", "is_under_way", "is_unschedulable"]

FAILURES_UNTIL_STOP: Final = 3
_FIRST_WAIT: Final = timedelta(seconds=30)
_LONGEST_WAIT: Final = timedelta(minutes=30)


@frozen
class FailureRow:
    """Units that failed one after another since the last one that became ready.

    `failed` are those that are there, the oldest first, also those from before that one; `failures` are those of the
    row, of which `replaced` are gone, the last of them with the number `replaced_serial`. `retry_at` is when another
    one may be tried in the place of one that failed: a while after the last failure, and as long after the last unit
    was made that finds no node.
    """

    failed: tuple[GPUUnit, ...] = ()
    failures: int = 0
    last_failure_time: str | None = None
    retry_at: datetime | None = None
    replaced: int = 0
    replaced_serial: int = 0

    @property
    def is_stopped(self) -> bool:
        """Whether so many failed that places are not filled any more, but tried."""
        return self.failures >= FAILURES_UNTIL_STOP

    def is_due(self, now: datetime) -> bool:
        return self.retry_at is not None and self.retry_at <= now

    def without(self, pool: StockPool, gone: GPUUnit) -> tuple[int, int]:
        """How many of the row are gone, and the number of the last one, once this one gave its place up as well."""
        serial = serial_of(pool, gone.metadata.name)
        return self.replaced + 1, max(self.replaced_serial, serial)


def failure_row(
    pool: StockPool, current: Sequence[GPUUnit], units: Sequence[GPUUnit], active: Sequence[GPUUnit], now: datetime
) -> FailureRow:
    """The row of failures among units of the pool's present spec, of all its stock units, and of what came from it.

    A new spec begins a new row.
    """
    failed = sorted((unit for unit in current if unit.status.phase == FAILED), key=lambda unit: _serial(pool, unit))
    success = _last_success(pool, units, active)
    failing = [unit for unit in failed if _serial(pool, unit) > success]
    status = pool.status
    is_same = status.observed_generation == pool.metadata.generation and success < (status.replaced_serial or 0)
    replaced, replaced_serial = (status.replaced or 0, status.replaced_serial or 0) if is_same else (0, 0)
    failures = replaced + len(failing)
    if not failed and not failures:
        return FailureRow()
    noticed = _noticed(status, failures, now)
    began = max(map(parse_timestamp, (noticed, *_made_in_vain(current))))
    return FailureRow(tuple(failed), failures, noticed, began + _wait(failures), replaced, replaced_serial)


def is_unschedulable(unit: GPUUnit) -> bool:
    """Whether no node takes a unit."""
    return reason_of(unit) == UNSCHEDULABLE


def is_under_way(unit: GPUUnit) -> bool:
    """Whether a unit is being tried: it is not known yet what becomes of it, and it does not wait for capacity, which
    the failed ones may hold.
    """
    return unit.status.phase != FAILED and not is_ready_stock(unit) and not is_unschedulable(unit)


def _made_in_vain(current: Sequence[GPUUnit]) -> tuple[str, ...]:
    """When the units were made that no node takes: each of them may have been a try."""
    made = (unit.metadata.creation_timestamp for unit in current if is_unschedulable(unit))
    return tuple(time for time in made if time is not None)


def _last_success(pool: StockPool, units: Sequence[GPUUnit], active: Sequence[GPUUnit]) -> int:
    """The number of the newest unit that is ready, or was when somebody claimed it; 0 if there is none."""
    ready = [unit.metadata.name for unit in units if is_ready_stock(unit) or claim_of(unit.metadata) is not None]
    taken = [source.stock.name for unit in active if (source := provenance_of(unit.metadata)) is not None]
    return max((serial_of(pool, name) for name in (*ready, *taken)), default=0)


def _noticed(status: StockPoolStatus, failures: int, now: datetime) -> str:
    known = status.last_failure_time
    return format_seconds(now) if known is None or failures > (status.failures or 0) else known


def _wait(failures: int) -> timedelta:
    doubled = min(max(failures - FAILURES_UNTIL_STOP, 0), 10)
    return min(_FIRST_WAIT * (1 << doubled), _LONGEST_WAIT)


def _serial(pool: StockPool, unit: GPUUnit) -> int:
    return serial_of(pool, unit.metadata.name)
