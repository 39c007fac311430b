"""Which units a pool or a function creates and deletes to have a number of them. Pure.

It rules only numbers, order and pace; what a unit is, and when it is of an old spec, is decided by the caller.
"""

from collections.abc import Sequence
from datetime import datetime

from attrs import frozen

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.desired.failures import FailureStreak, Serials, is_starting
from gpuruntime.desired.pools.units import is_ready_stock
from gpuruntime.meta import format_seconds

__all__ = ["Turnover", "turnover"]


@frozen
class Turnover:
    """The number of units to create, and the units to delete.

    `replaced` and `replaced_serial` are those of the streak after it. `failures` is a phrase about failed units, ""
    without any. `retry_at` is when to look again even without a change. `is_limited` means that the allowance prevented
    further creations.
    """

    create: int
    delete: tuple[GPUUnit, ...]
    replaced: int
    replaced_serial: int
    failures: str
    retry_at: datetime | None
    is_limited: bool


def turnover(
    replicas: int,
    current: Sequence[GPUUnit],
    old: Sequence[GPUUnit],
    streak: FailureStreak,
    serials: Serials,
    *,
    now: datetime,
    allowance: int,
    held: int = 0,
) -> Turnover:
    """The steps towards `replicas` units of the current spec. `held` is the number of units whose capacity is still
    used, although they no longer count.

    Guarantees:
        - Deletions never reduce the ready units below `replicas`: a ready unit of an old spec is deleted when a ready
          replacement exists, one that is not ready at once. There is at most one unit more than `replicas`.
        - A failed unit has 30 seconds to recover, then it is replaced, one unit at a time. After three consecutive
          failures the other missing units are not created either, and each further failure doubles the wait, up to 30
          minutes. An unschedulable replacement delays the next one by one wait only, because failed units may hold the
          capacity that it needs.
        - Without an allowance nothing is created, and no failed unit is replaced.
    """
    limit = replicas + (1 if old else 0) - held

    def missing(deleted: int) -> int:
        kept = len(current) - deleted
        return max(0, min(replicas - kept, limit - len(current) - len(old) + deleted))

    shortfall = missing(0)
    # The one unit that is tried after a stop is on trial until it is a success: the next try waits for it.
    is_on_trial = streak.is_stopped and streak.trial_ends_at is not None
    has_starting = is_on_trial or any(map(is_starting, current))
    may_retry = streak.is_due(now) and not has_starting
    replaceable = streak.failed[:1] if may_retry and not shortfall and missing(1) else ()
    due = min(missing(len(replaceable)), int(may_retry)) if streak.is_stopped or replaceable else shortfall
    allowed = min(due, allowance)
    gone = replaceable[:allowed]
    retry_at = streak.retry_at if (shortfall or streak.failed) and not has_starting and not streak.is_due(now) else None
    replaced, replaced_serial = (
        streak.without(serials(gone[0].metadata.name)) if gone else (streak.replaced, streak.replaced_serial)
    )
    return Turnover(
        create=allowed,
        delete=(*gone, *_surplus(replicas, current, old)),
        replaced=replaced,
        replaced_serial=replaced_serial,
        failures=_failure_summary(streak, retry_at, is_retrying=has_starting or bool(allowed)),
        retry_at=min((time for time in (retry_at, streak.trial_ends_at) if time is not None), default=None),
        is_limited=allowed < due,
    )


def _surplus(replicas: int, current: Sequence[GPUUnit], old: Sequence[GPUUnit]) -> tuple[GPUUnit, ...]:
    """The units to delete: first those that are not ready, then the newest, because claims take the oldest."""

    def deletion_order(unit: GPUUnit) -> tuple[bool, str, str]:
        return not is_ready_stock(unit), unit.metadata.creation_timestamp or "", unit.metadata.name

    surplus = sorted(current, key=deletion_order, reverse=True)[: max(0, len(current) - replicas)]
    kept = [unit for unit in current if unit not in surplus and is_ready_stock(unit)]
    not_ready = [unit for unit in old if not is_ready_stock(unit)]
    ready = sorted((unit for unit in old if is_ready_stock(unit)), key=deletion_order, reverse=True)
    replaced = ready[: max(0, len(kept) + len(ready) - replicas)]
    return (*surplus, *not_ready, *replaced)


def _failure_summary(streak: FailureStreak, retry_at: datetime | None, *, is_retrying: bool) -> str:
    """The failures in a phrase for the Ready condition, "" if there are none."""
    if not streak.failed and not streak.is_stopped:
        return ""
    count = f"{streak.failures} failed in a row" if streak.is_stopped else f"{len(streak.failed)} failed"
    if is_retrying:
        return f"{count}, a replacement is starting"
    return count if retry_at is None else f"{count}, next retry at {format_seconds(retry_at)}"
