"""What a pool does next: which stock units to make, which to remove, and what to say about it.

Pure: everything follows from the pool, the units that bear its label, and the active units that came from it. A step
that was lost or repeated is decided again from what is there, and names are chosen so that a repeated creation meets
the first one.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from attrs import evolve, frozen

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.reasons import (
    ADMISSION_REFUSED,
    DEPLOYMENT_SYNC_FAILED,
    FOREIGN_OBJECT,
    INVALID_SPEC,
    POD_STARTUP_FAILED,
    POOL_PROGRESSING,
    POOL_READY,
    QUOTA_EXCEEDED,
    READY_CONDITION,
    REFILL_STOPPED,
    SCALED_TO_ZERO,
    phase_of,
)
from gpuruntime.api.stockpool import StockPool, StockPoolStatus
from gpuruntime.desired.pool_failures import FailureRow, failure_row, is_under_way, is_unschedulable
from gpuruntime.desired.pool_units import (
    POOL_REVISION,
    is_as_made,
    is_ready_stock,
    reason_of,
    revision_of,
    serial_of,
    stock_spec,
    unit_name,
)
from gpuruntime.desired.provenance import claim_of, provenance_of
from gpuruntime.meta import Condition, find_condition, format_seconds, is_controlled_by, set_condition

__all__ = ["PoolPlan", "next_steps", "pool_status"]

# For these an active unit has no pod that could ask for a node, and gets none before somebody does something.
_WITHOUT_POD: Final = frozenset(
    {ADMISSION_REFUSED, DEPLOYMENT_SYNC_FAILED, FOREIGN_OBJECT, INVALID_SPEC, QUOTA_EXCEEDED}
)


@frozen
class PoolPlan:
    """What to do, and what is to be said once it is done.

    `create` are names; `delete` are units as they were seen, to be removed in that state only, so that a claim that
    came first wins. `retry_at` is when to look again although nothing may have changed. `limited` says that the
    allowance kept the plan from making more.
    """

    create: tuple[str, ...]
    delete: tuple[GPUUnit, ...]
    available: int
    allocated: int
    failures: int
    last_failure_time: str | None
    replaced: int
    replaced_serial: int
    last_serial: int
    reason: str
    message: str
    retry_at: datetime | None = None
    limited: bool = False


def next_steps(
    pool: StockPool, units: Sequence[GPUUnit], active: Sequence[GPUUnit], *, now: datetime, allowance: int
) -> PoolPlan:
    """The steps that bring the pool closer to its spec.

    `units` are those in its namespace that bear its label, `active` the active units whose provenance names it.
    `allowance` is how many units may be made now.

    Guarantees:
        - A claimed unit is never deleted. It holds its place until it is gone, and after that its active unit does
          until it has a node or turns out to get no pod, so that a pool never takes the GPU that a claim was promised.
        - A unit whose spec somebody edited is one of an old spec.
        - Ready units never become fewer than `replicas` by what a pool deletes: a unit of an old spec goes when there
          is a ready one in its place, one that is not ready goes at once. There is at most one unit above `replicas`.
        - A unit that failed keeps its place for half a minute, in which it may recover; then another one is tried in
          its place, one at a time. After three that failed in a row no other place is filled, either, and each further
          failure doubles the wait, up to half an hour. A try that finds no node holds up the next for one wait only:
          what failed may have the capacity that it needs.
        - Nothing is made, and no failed unit gives its place up, without an allowance.
        - Names are never used twice.
    """
    revision = revision_of(stock_spec(pool.spec))
    living = [unit for unit in units if unit.metadata.deletion_timestamp is None]
    free = [unit for unit in living if claim_of(unit.metadata) is None and is_controlled_by(unit.metadata, pool)]
    current = [unit for unit in free if _is_current(unit, revision)]
    old = [unit for unit in free if not _is_current(unit, revision)]
    ready = [unit for unit in free if is_ready_stock(unit)]
    row = failure_row(pool, current, living, active, now)

    limit = pool.spec.replicas + (1 if old else 0) - len(_promised(living, active))

    def missing(given_up: int) -> int:
        kept = len(current) - given_up
        return max(0, min(pool.spec.replicas - kept, limit - len(free) + given_up))

    wanted = missing(0)
    trying = any(map(is_under_way, current))
    may_try = row.is_due(now) and not trying
    replaceable = row.failed[:1] if may_try and not wanted and missing(1) else ()
    due = min(missing(len(replaceable)), int(may_try)) if row.is_stopped or replaceable else wanted
    allowed = min(due, allowance)
    doomed = replaceable[:allowed]
    retry_at = row.retry_at if (wanted or row.failed) and not trying and not row.is_due(now) else None
    last = _last_serial(pool, units, active)
    trouble = _trouble(row, retry_at, is_trying=trying or bool(allowed))
    reason, message = _verdict(pool, ready, old, row, _waiting(current, living, active), trouble)
    replaced, replaced_serial = row.without(pool, doomed[0]) if doomed else (row.replaced, row.replaced_serial)
    return PoolPlan(
        create=tuple(unit_name(pool, last + number) for number in range(1, allowed + 1)),
        delete=(*doomed, *_superfluous(pool.spec.replicas, current, old)),
        available=len(ready),
        allocated=sum(1 for unit in active if unit.metadata.deletion_timestamp is None),
        failures=row.failures,
        last_failure_time=row.last_failure_time,
        replaced=replaced,
        replaced_serial=replaced_serial,
        last_serial=last + allowed,
        reason=reason,
        message=message,
        retry_at=retry_at,
        limited=allowed < due,
    )


def pool_status(pool: StockPool, plan: PoolPlan, now: datetime) -> StockPoolStatus:
    """The status after the plan; the very status that the pool has if nothing of it changes but the time."""
    before = pool.status
    condition = Condition(
        READY_CONDITION,
        "True" if plan.reason == POOL_READY else "False",
        plan.reason,
        plan.message,
        observed_generation=pool.metadata.generation,
    )
    after = evolve(
        before,
        available=plan.available,
        allocated=plan.allocated,
        phase=phase_of(plan.reason),
        observed_generation=pool.metadata.generation,
        failures=plan.failures or None,
        last_failure_time=plan.last_failure_time,
        replaced=plan.replaced or None,
        replaced_serial=plan.replaced_serial or None,
        last_serial=plan.last_serial or None,
        conditions=set_condition(before.conditions, condition, now),
    )
    return before if after == before else evolve(after, last_sync_time=format_seconds(now))


def _is_current(unit: GPUUnit, revision: str) -> bool:
    """Whether a unit is of the pool's present spec, and nobody has edited it."""
    return unit.metadata.annotations.get(POOL_REVISION) == revision and is_as_made(unit)


def _last_serial(pool: StockPool, units: Sequence[GPUUnit], active: Sequence[GPUUnit]) -> int:
    sources = [source.stock.name for unit in active if (source := provenance_of(unit.metadata)) is not None]
    names = [*sources, *(unit.metadata.name for unit in units)]
    # What is there tells of units that were made before a crash kept us from writing the status; the status tells of
    # those that are gone.
    return max([pool.status.last_serial or 0, *(serial_of(pool, name) for name in names)])


def _is_waiting_for_a_node(unit: GPUUnit) -> bool:
    stages = unit.status.stages
    is_unbound = stages is None or stages.scheduled is None
    return is_unbound and unit.metadata.deletion_timestamp is None and reason_of(unit) not in _WITHOUT_POD


def _promised(living: Sequence[GPUUnit], active: Sequence[GPUUnit]) -> set[str]:
    """The UIDs of stock units whose capacity is on its way to an active unit."""
    claimed = {unit.metadata.uid for unit in living if claim_of(unit.metadata) is not None}
    waiting = [provenance_of(unit.metadata) for unit in active if _is_waiting_for_a_node(unit)]
    return claimed | {source.uid for source in waiting if source is not None}


def _waiting(current: Sequence[GPUUnit], living: Sequence[GPUUnit], active: Sequence[GPUUnit]) -> str:
    """What the pool waits for, if it is known."""
    homeless = [unit for unit in current if is_unschedulable(unit)]
    if homeless:
        return f"{len(homeless)} find no node: {_words(homeless[0])}"
    claimed = [str(unit.key) for unit in living if claim_of(unit.metadata) is not None]
    unbound = [str(unit.key) for unit in active if _is_waiting_for_a_node(unit)]
    if unbound:
        return f"active unit {min(unbound)} has no node yet"
    return f"stock unit {min(claimed)} is being handed over" if claimed else ""


def _superfluous(replicas: int, current: Sequence[GPUUnit], old: Sequence[GPUUnit]) -> tuple[GPUUnit, ...]:
    """What is too much: first what is not ready, then the newest, because claims take the oldest."""

    def least_missed(unit: GPUUnit) -> tuple[bool, str, str]:
        return not is_ready_stock(unit), unit.metadata.creation_timestamp or "", unit.metadata.name

    surplus = sorted(current, key=least_missed, reverse=True)[: max(0, len(current) - replicas)]
    kept = [unit for unit in current if unit not in surplus and is_ready_stock(unit)]
    idle = [unit for unit in old if not is_ready_stock(unit)]
    serving = sorted((unit for unit in old if is_ready_stock(unit)), key=least_missed, reverse=True)
    replaced = serving[: max(0, len(kept) + len(serving) - replicas)]
    return (*surplus, *idle, *replaced)


def _trouble(row: FailureRow, retry_at: datetime | None, *, is_trying: bool) -> str:
    """What is to be said of failures, "" if there are none."""
    if not row.failed and not row.is_stopped:
        return ""
    count = f"{row.failures} failed in a row" if row.is_stopped else f"{len(row.failed)} failed"
    if is_trying:
        return f"{count}, one more is being tried"
    return count if retry_at is None else f"{count}, the next try is at {format_seconds(retry_at)}"


def _verdict(
    pool: StockPool,
    ready: Sequence[GPUUnit],
    old: Sequence[GPUUnit],
    row: FailureRow,
    waiting: str,
    trouble: str,
) -> tuple[str, str]:
    """Reason and message of the Ready condition. A unit that failed is told of whatever became of later ones."""
    replicas = pool.spec.replicas
    if replicas == 0:
        return SCALED_TO_ZERO, "The pool is asked for no stock."
    is_full = len(ready) >= replicas
    count = f"{min(len(ready), replicas)} of {replicas} stock units are ready"
    if is_full and not old:
        return POOL_READY, f"{count}."
    replacing = f"{len(old)} of an old spec are being replaced" if old else ""
    words = f" {row.failed[0].metadata.name}: {_words(row.failed[0])}" if row.failed else ""
    message = f"{'; '.join(filter(None, (count, replacing, trouble, waiting)))}.{words}"
    if is_full:
        return POOL_READY, message
    if row.is_stopped:
        return REFILL_STOPPED, message
    return POD_STARTUP_FAILED if row.failed else POOL_PROGRESSING, message


def _words(unit: GPUUnit) -> str:
    ready = find_condition(unit.status.conditions, READY_CONDITION)
    return (ready.message if ready is not None else None) or "no reason is known"
