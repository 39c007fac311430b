"""The plan of a pool: which stock units to create and to delete, and the resulting status.

Pure: the plan is a function of the pool, the units with its label, and the active units from it. It is level-triggered:
a lost or repeated step is planned again from the current state, and names are deterministic, so that a repeated
creation conflicts with the first.
"""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
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
from gpuruntime.desired.failures import FailureRecord, FailureStreak, failure_streak, is_unschedulable
from gpuruntime.desired.pools.units import (
    POOL_REVISION,
    is_ready_stock,
    is_unmodified,
    reason_of,
    revision_of,
    serial_of,
    stock_spec,
    unit_name,
)
from gpuruntime.desired.provenance import claim_of, provenance_of
from gpuruntime.desired.turnover import turnover
from gpuruntime.meta import Condition, find_condition, format_seconds, is_controlled_by, set_condition

__all__ = ["PoolPlan", "next_steps", "pool_status"]

# With these reasons an active unit has no pod that could be scheduled, and gets none without user action.
_WITHOUT_POD: Final = frozenset(
    {ADMISSION_REFUSED, DEPLOYMENT_SYNC_FAILED, FOREIGN_OBJECT, INVALID_SPEC, QUOTA_EXCEEDED}
)


@frozen
class PoolPlan:
    """The next steps of a pool, and its status after them.

    `create` are names. `delete` are units as they were observed: delete them with a resourceVersion precondition, so
    that a concurrent claim wins. `retry_at` is when to reconcile again even without a change. `limited` means that
    `allowance` prevented further creations.
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

    `units` are those in its namespace with its label, `active` the active units whose provenance names it. `allowance`
    is how many units may be created now.

    Guarantees:
        - A claimed unit is never deleted. It counts as a replica until it is gone, and then its active unit does, until
          that is bound to a node or turns out to get no pod. So a pool never takes the GPU of a claim.
        - A unit whose spec was edited counts as a unit of an old spec.
        - A unit ends a row of failures when it has been ready for 30 seconds, or was claimed.
        - Names are never reused.
        - Numbers, order and pace are those of `turnover`.
    """
    revision = revision_of(stock_spec(pool.spec))
    existing = [unit for unit in units if unit.metadata.deletion_timestamp is None]
    free = [unit for unit in existing if claim_of(unit.metadata) is None and is_controlled_by(unit.metadata, pool)]
    current = [unit for unit in free if _is_current(unit, revision)]
    old = [unit for unit in free if not _is_current(unit, revision)]
    ready = [unit for unit in free if is_ready_stock(unit)]
    serials = partial(serial_of, pool)
    streak = failure_streak(_record(pool), serials, current, existing, active, now)

    turn = turnover(
        pool.spec.replicas,
        current,
        old,
        streak,
        serials,
        now=now,
        allowance=allowance,
        held=len(_being_handed_over(existing, active)),
    )
    last = _last_serial(pool, units, active)
    reason, message = _ready_reason(pool, ready, old, streak, _waiting(current, existing, active), turn.failures)
    return PoolPlan(
        create=tuple(unit_name(pool, last + number) for number in range(1, turn.create + 1)),
        delete=turn.delete,
        available=len(ready),
        allocated=sum(1 for unit in active if unit.metadata.deletion_timestamp is None),
        failures=streak.failures,
        last_failure_time=streak.last_failure_time,
        replaced=turn.replaced,
        replaced_serial=turn.replaced_serial,
        last_serial=last + turn.create,
        reason=reason,
        message=message,
        retry_at=turn.retry_at,
        limited=turn.is_limited,
    )


def pool_status(pool: StockPool, plan: PoolPlan, now: datetime) -> StockPoolStatus:
    """The status after the plan; the pool's own status object if nothing but the time would change."""
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


def _record(pool: StockPool) -> FailureRecord:
    status = pool.status
    return FailureRecord(
        status.failures or 0,
        status.last_failure_time,
        status.replaced or 0,
        status.replaced_serial or 0,
        is_current=status.observed_generation == pool.metadata.generation,
    )


def _is_current(unit: GPUUnit, revision: str) -> bool:
    """Whether a unit has the pool's current spec and was not edited."""
    return unit.metadata.annotations.get(POOL_REVISION) == revision and is_unmodified(unit)


def _last_serial(pool: StockPool, units: Sequence[GPUUnit], active: Sequence[GPUUnit]) -> int:
    sources = [source.stock.name for unit in active if (source := provenance_of(unit.metadata)) is not None]
    names = [*sources, *(unit.metadata.name for unit in units)]
    # The existing names cover units that were created right before a crash, without a status update; the status covers
    # units that are gone.
    return max([pool.status.last_serial or 0, *(serial_of(pool, name) for name in names)])


def _is_waiting_for_a_node(unit: GPUUnit) -> bool:
    stages = unit.status.stages
    is_unbound = stages is None or stages.scheduled is None
    return is_unbound and unit.metadata.deletion_timestamp is None and reason_of(unit) not in _WITHOUT_POD


def _being_handed_over(existing: Sequence[GPUUnit], active: Sequence[GPUUnit]) -> set[str]:
    """The UIDs of stock units whose capacity is being handed over to an active unit."""
    claimed = {unit.metadata.uid for unit in existing if claim_of(unit.metadata) is not None}
    waiting = [provenance_of(unit.metadata) for unit in active if _is_waiting_for_a_node(unit)]
    return claimed | {source.uid for source in waiting if source is not None}


def _waiting(current: Sequence[GPUUnit], existing: Sequence[GPUUnit], active: Sequence[GPUUnit]) -> str:
    """What the pool waits for; "" if unknown."""
    unschedulable = [unit for unit in current if is_unschedulable(unit)]
    if unschedulable:
        return f"{len(unschedulable)} are unschedulable: {_ready_message(unschedulable[0])}"
    claimed = [str(unit.key) for unit in existing if claim_of(unit.metadata) is not None]
    unbound = [str(unit.key) for unit in active if _is_waiting_for_a_node(unit)]
    if unbound:
        return f"active unit {min(unbound)} has no node yet"
    return f"stock unit {min(claimed)} is being handed over" if claimed else ""


def _ready_reason(
    pool: StockPool,
    ready: Sequence[GPUUnit],
    old: Sequence[GPUUnit],
    streak: FailureStreak,
    waiting: str,
    failures: str,
) -> tuple[str, str]:
    """Reason and message of the Ready condition. A failed unit is reported even if later ones became ready."""
    replicas = pool.spec.replicas
    if replicas == 0:
        return SCALED_TO_ZERO, "The pool is scaled to zero."
    is_full = len(ready) >= replicas
    count = f"{min(len(ready), replicas)} of {replicas} stock units are ready"
    if is_full and not old:
        return POOL_READY, f"{count}."
    replacing = f"{len(old)} of an old spec are being replaced" if old else ""
    detail = f" {streak.failed[0].metadata.name}: {_ready_message(streak.failed[0])}" if streak.failed else ""
    message = f"{'; '.join(filter(None, (count, replacing, failures, waiting)))}.{detail}"
    if is_full:
        return POOL_READY, message
    if streak.is_stopped:
        return REFILL_STOPPED, message
    return POD_STARTUP_FAILED if streak.failed else POOL_PROGRESSING, message


def _ready_message(unit: GPUUnit) -> str:
    ready = find_condition(unit.status.conditions, READY_CONDITION)
    return (ready.message if ready is not None else None) or "no reason given"
