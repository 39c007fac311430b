"""What a pool does next: which stock units to make, which to remove, and what to say about it.

Pure: everything follows from the pool, the units that bear its label, and the active units that came from it. A step
that was lost or repeated is decided again from what is there, and names are chosen so that a repeated creation meets
the first one.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from attrs import evolve, frozen

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.reasons import (
    FAILED,
    POD_STARTUP_FAILED,
    POOL_PROGRESSING,
    POOL_READY,
    READY_CONDITION,
    REFILL_STOPPED,
    SCALED_TO_ZERO,
    UNSCHEDULABLE,
    phase_of,
)
from gpuruntime.api.stockpool import StockPool, StockPoolStatus
from gpuruntime.desired.pool_units import (
    POOL_REVISION,
    is_ready_stock,
    revision_of,
    serial_of,
    stock_spec,
    unit_name,
)
from gpuruntime.desired.provenance import claim_of, provenance_of
from gpuruntime.meta.conditions import Condition, find_condition, set_condition
from gpuruntime.meta.owners import is_controlled_by
from gpuruntime.meta.timestamps import format_seconds, parse_timestamp

__all__ = ["FAILURES_UNTIL_STOP", "PoolPlan", "next_steps", "pool_status"]

FAILURES_UNTIL_STOP: Final = 3
_FIRST_WAIT: Final = timedelta(seconds=30)
_LONGEST_WAIT: Final = timedelta(minutes=30)


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
          until it has a node, so that a pool never takes the GPU that a claim was promised.
        - Ready units never become fewer than `replicas` by what a pool deletes: a unit of an old spec goes when there
          is a ready one in its place, one that is not ready goes at once. There is at most one unit above `replicas`.
        - After three units in a row that failed, one more is tried after half a minute, the next after twice that.
        - Names are never used twice.
    """
    revision = revision_of(stock_spec(pool.spec))
    living = [unit for unit in units if unit.metadata.deletion_timestamp is None]
    free = [unit for unit in living if claim_of(unit.metadata) is None and is_controlled_by(unit.metadata, pool)]
    current = [unit for unit in free if unit.metadata.annotations.get(POOL_REVISION) == revision]
    old = [unit for unit in free if unit.metadata.annotations.get(POOL_REVISION) != revision]
    ready = [unit for unit in free if is_ready_stock(unit)]
    failed = sorted(
        (unit for unit in current if unit.status.phase == FAILED), key=lambda unit: serial_of(pool, unit.metadata.name)
    )
    failing = _failed_since_ready(pool, current, failed)
    failed_at, retry_at = _failure_times(pool.status, len(failing), now)

    limit = pool.spec.replicas + (1 if old else 0)
    room = limit - len(free) - len(_promised(living, active))
    wanted = max(0, min(pool.spec.replicas - len(current), room))
    pace = allowance if retry_at is None else _trial(current, retry_at, now)
    allowed = min(wanted, pace)
    last = _last_serial(pool, units, active)
    stopped = _stopped(len(failing), retry_at, now) if wanted and retry_at is not None else ""
    reason, message = _verdict(pool, ready, old, failed, _waiting(current, living, active), stopped)
    return PoolPlan(
        create=tuple(unit_name(pool, last + number) for number in range(1, allowed + 1)),
        delete=_superfluous(pool.spec.replicas, current, old),
        available=len(ready),
        allocated=sum(1 for unit in active if unit.metadata.deletion_timestamp is None),
        failures=len(failing),
        last_failure_time=failed_at,
        last_serial=last + allowed,
        reason=reason,
        message=message,
        retry_at=retry_at if wanted and retry_at is not None and retry_at > now else None,
        limited=retry_at is None and allowed < wanted,
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
        last_serial=plan.last_serial or None,
        conditions=set_condition(before.conditions, condition, now),
    )
    return before if after == before else evolve(after, last_sync_time=format_seconds(now))


def _last_serial(pool: StockPool, units: Sequence[GPUUnit], active: Sequence[GPUUnit]) -> int:
    sources = [source.stock.name for unit in active if (source := provenance_of(unit.metadata)) is not None]
    names = [*sources, *(unit.metadata.name for unit in units)]
    # What is there tells of units that were made before a crash kept us from writing the status; the status tells of
    # those that are gone.
    return max([pool.status.last_serial or 0, *(serial_of(pool, name) for name in names)])


def _is_waiting_for_a_node(unit: GPUUnit) -> bool:
    stages = unit.status.stages
    return unit.metadata.deletion_timestamp is None and (stages is None or stages.scheduled is None)


def _promised(living: Sequence[GPUUnit], active: Sequence[GPUUnit]) -> set[str]:
    """The UIDs of stock units whose capacity is on its way to an active unit."""
    claimed = {unit.metadata.uid for unit in living if claim_of(unit.metadata) is not None}
    waiting = [provenance_of(unit.metadata) for unit in active if _is_waiting_for_a_node(unit)]
    return claimed | {source.uid for source in waiting if source is not None}


def _waiting(current: Sequence[GPUUnit], living: Sequence[GPUUnit], active: Sequence[GPUUnit]) -> str:
    """What the pool waits for, if it is known."""
    homeless = [unit for unit in current if _reason(unit) == UNSCHEDULABLE]
    if homeless:
        return f"{len(homeless)} find no node: {_words(homeless[0])}"
    claimed = [str(unit.key) for unit in living if claim_of(unit.metadata) is not None]
    unbound = [str(unit.key) for unit in active if _is_waiting_for_a_node(unit)]
    if unbound:
        return f"active unit {min(unbound)} has no node yet"
    return f"stock unit {min(claimed)} is being handed over" if claimed else ""


def _failed_since_ready(pool: StockPool, current: Sequence[GPUUnit], failed: Sequence[GPUUnit]) -> Sequence[GPUUnit]:
    """Those of the units that failed which were made after the newest one that is ready."""
    newest_ready = max((serial_of(pool, unit.metadata.name) for unit in current if is_ready_stock(unit)), default=0)
    return [unit for unit in failed if serial_of(pool, unit.metadata.name) > newest_ready]


def _failure_times(status: StockPoolStatus, failures: int, now: datetime) -> tuple[str | None, datetime | None]:
    """When the last failure was noticed, and until when nothing is tried if there were too many."""
    if failures == 0:
        return None, None
    known = status.last_failure_time
    if known is None or failures > (status.failures or 0):
        known = format_seconds(now)
    if failures < FAILURES_UNTIL_STOP:
        return known, None
    wait = min(_FIRST_WAIT * 2 ** min(failures - FAILURES_UNTIL_STOP, 10), _LONGEST_WAIT)
    return known, parse_timestamp(known) + wait


def _trial(current: Sequence[GPUUnit], retry_at: datetime, now: datetime) -> int:
    """How many units to try after too many failures: one when its time has come, and none while one is under way."""
    under_way = [unit for unit in current if unit.status.phase != FAILED and not is_ready_stock(unit)]
    return 1 if retry_at <= now and not under_way else 0


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


def _stopped(failures: int, retry_at: datetime, now: datetime) -> str:
    """That too many failed, for a pool that would make more."""
    then = f"the next try is at {format_seconds(retry_at)}" if retry_at > now else "one more is being tried"
    return f"{failures} failed in a row, {then}"


def _verdict(
    pool: StockPool,
    ready: Sequence[GPUUnit],
    old: Sequence[GPUUnit],
    failed: Sequence[GPUUnit],
    waiting: str,
    stopped: str,
) -> tuple[str, str]:
    """Reason and message of the Ready condition.

    A unit that failed is told of whatever became of later ones: it keeps its place, so the pool is not full, or not
    rid of its old spec, before somebody mended what its words say.
    """
    replicas = pool.spec.replicas
    if replicas == 0:
        return SCALED_TO_ZERO, "The pool is asked for no stock."
    is_full = len(ready) >= replicas
    count = f"{min(len(ready), replicas)} of {replicas} stock units are ready"
    if is_full and not old:
        return POOL_READY, f"{count}."
    replacing = f"{len(old)} of an old spec are being replaced" if old else ""
    trouble = stopped or (f"{len(failed)} failed" if failed else "")
    words = f" {failed[0].metadata.name}: {_words(failed[0])}" if failed else ""
    message = f"{'; '.join(filter(None, (count, replacing, trouble, waiting)))}.{words}"
    if is_full:
        return POOL_READY, message
    if stopped:
        return REFILL_STOPPED, message
    return POD_STARTUP_FAILED if failed else POOL_PROGRESSING, message


def _reason(unit: GPUUnit) -> str:
    ready = find_condition(unit.status.conditions, READY_CONDITION)
    return "" if ready is None else ready.reason


def _words(unit: GPUUnit) -> str:
    ready = find_condition(unit.status.conditions, READY_CONDITION)
    return (ready.message if ready is not None else None) or "no reason is known"
