"""Consecutive failures of the units of a pool or a function, and when the next one may be tried.

A failed unit is replaced after a while, because another node may work. Replaced units are gone, so the status of their
maker keeps their count. A unit is a success when it has been ready for 30 seconds or was claimed: a unit that crashes
is ready for a moment, too.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from attrs import frozen

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.reasons import FAILED, READY_CONDITION, UNSCHEDULABLE
from gpuruntime.desired.pools.units import is_ready_stock, reason_of
from gpuruntime.desired.provenance import claim_of, provenance_of
from gpuruntime.meta import find_condition, format_seconds, parse_timestamp

__all__ = [
    "FAILURES_UNTIL_STOP",
    "FailureRecord",
    "FailureStreak",
    "Serials",
    "failure_streak",
    "is_starting",
    "is_unschedulable",
]

Serials = Callable[[str], int]
"""The serial number in the name of a unit that its maker created, 0 for any other name."""

FAILURES_UNTIL_STOP: Final = 3
_FIRST_WAIT: Final = timedelta(seconds=30)
_LONGEST_WAIT: Final = timedelta(minutes=30)
_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TRIAL: Final = timedelta(seconds=30)


@frozen
class FailureRecord:
    """What the status of a pool or a function says about failures.

    `is_current` is false if its spec has changed since: a new spec starts a new streak.
    """

    failures: int = 0
    last_failure_time: str | None = None
    replaced: int = 0
    replaced_serial: int = 0
    is_current: bool = True


@frozen
class FailureStreak:
    """The consecutive failures since the last success.

    `failed` are all failed units that exist, the oldest first, including those from before the streak. `failures` is
    the length of the streak; `replaced` of these units are gone, `replaced_serial` is their highest serial number.
    `retry_at` is when a failed unit may be replaced: one wait after the last failure, and one wait after the creation
    of the last unschedulable unit. `trial_ends_at` is when the first unit that is ready becomes a
    success.
    """

    failed: tuple[GPUUnit, ...] = ()
    failures: int = 0
    last_failure_time: str | None = None
    retry_at: datetime | None = None
    replaced: int = 0
    replaced_serial: int = 0
    trial_ends_at: datetime | None = None

    @property
    def is_stopped(self) -> bool:
        """Whether the maker has stopped filling up, and only tries one unit at a time."""
        return self.failures >= FAILURES_UNTIL_STOP

    def is_due(self, now: datetime) -> bool:
        return self.retry_at is not None and self.retry_at <= now

    def without(self, serial: int) -> tuple[int, int]:
        """`replaced` and `replaced_serial` after the failed unit with this serial number was replaced as well."""
        return self.replaced + 1, max(self.replaced_serial, serial)


def failure_streak(
    record: FailureRecord,
    serials: Serials,
    current: Sequence[GPUUnit],
    units: Sequence[GPUUnit],
    active: Sequence[GPUUnit],
    now: datetime,
) -> FailureStreak:
    """The streak of a maker of units, from those of its current spec, all of them, and the active units that took over
    one of them.
    """

    def serial(unit: GPUUnit) -> int:
        return serials(unit.metadata.name)

    failed = sorted((unit for unit in current if unit.status.phase == FAILED), key=serial)
    success = _last_success(serials, units, active, now)
    failing = [unit for unit in failed if serial(unit) > success]
    is_same = record.is_current and success < record.replaced_serial
    replaced, replaced_serial = (record.replaced, record.replaced_serial) if is_same else (0, 0)
    failures = replaced + len(failing)
    if not failed and not failures:
        return FailureStreak()
    noticed = _noticed(record, failures, now)
    began = max(map(parse_timestamp, (noticed, *_unschedulable_since(current))))
    trials = [_proven_at(unit) for unit in units if is_ready_stock(unit) and serial(unit) > success]
    return FailureStreak(
        tuple(failed),
        failures,
        noticed,
        began + _wait(failures),
        replaced,
        replaced_serial,
        min(trials, default=None) if failures else None,
    )


def is_unschedulable(unit: GPUUnit) -> bool:
    """Whether no node fits the unit."""
    return reason_of(unit) == UNSCHEDULABLE


def is_starting(unit: GPUUnit) -> bool:
    """Whether a unit has neither become ready nor failed, and does not wait for capacity that failed units may hold."""
    return unit.status.phase != FAILED and not is_ready_stock(unit) and not is_unschedulable(unit)


def _unschedulable_since(current: Sequence[GPUUnit]) -> tuple[str, ...]:
    """The creation times of unschedulable units: each of them may have been a replacement."""
    created = (unit.metadata.creation_timestamp for unit in current if is_unschedulable(unit))
    return tuple(time for time in created if time is not None)


def _last_success(serials: Serials, units: Sequence[GPUUnit], active: Sequence[GPUUnit], now: datetime) -> int:
    """The highest serial number of a unit that has been ready for long enough, or was claimed; 0 if there is none."""
    proven = [unit.metadata.name for unit in units if is_ready_stock(unit) and _proven_at(unit) <= now]
    claimed = [unit.metadata.name for unit in units if claim_of(unit.metadata) is not None]
    taken = [source.stock.name for unit in active if (source := provenance_of(unit.metadata)) is not None]
    return max(map(serials, (*proven, *claimed, *taken)), default=0)


def _proven_at(unit: GPUUnit) -> datetime:
    """When a ready unit will have been ready for long enough."""
    ready = find_condition(unit.status.conditions, READY_CONDITION)
    since = None if ready is None else ready.last_transition_time
    return (_LONG_AGO if since is None else parse_timestamp(since)) + _TRIAL


def _noticed(record: FailureRecord, failures: int, now: datetime) -> str:
    known = record.last_failure_time
    return format_seconds(now) if known is None or failures > record.failures else known


def _wait(failures: int) -> timedelta:
    doubled = min(max(failures - FAILURES_UNTIL_STOP, 0), 10)
    return min(_FIRST_WAIT * (1 << doubled), _LONGEST_WAIT)
