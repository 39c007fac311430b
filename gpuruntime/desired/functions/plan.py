"""The plan of a function: which workers to create and to delete, and the resulting status.

Pure: the plan is a function of the GPUFunction, the workers that it owns, and the units that joined it. It is
level-triggered: a lost or repeated step is planned again from the current state.

| who dies where | then |
|---|---|
| before the serial numbers are in the status | nothing was created; the next run plans the same |
| between that write and a creation | the numbers are lost, and the next run takes the ones after them |
| after a creation | the worker is in the cache of the next process, and counts |
| after a deletion | the worker drains without the operator: its pod asks the sidecar before it ends |
"""

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from attrs import evolve, frozen

from gpuruntime.api.gpufunction import FunctionWorkers, GPUFunction, GPUFunctionStatus
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.reasons import (
    FAILED,
    FUNCTION_PAUSED,
    FUNCTION_PROGRESSING,
    FUNCTION_READY,
    POD_STARTUP_FAILED,
    READY_CONDITION,
    STARTS_STOPPED,
    phase_of,
)
from gpuruntime.desired.failures import FailureRecord, FailureStreak, failure_streak, is_unschedulable
from gpuruntime.desired.functions.workers import is_current, serial_of, worker_name, worker_spec
from gpuruntime.desired.pools.units import is_ready_unit, revision_of
from gpuruntime.desired.turnover import turnover
from gpuruntime.meta import Condition, find_condition, format_seconds, set_condition

__all__ = ["FunctionPlan", "function_status", "next_steps", "reserved_status", "without_workers"]


@frozen
class FunctionPlan:
    """The next steps of a function, and its status after them.

    `create` are names, whose serial numbers are to be in the status before the first of them is created. `delete` are
    workers as they were observed. `retry_at` is when to reconcile again even without a change. `is_limited` means that
    `allowance` prevented further creations.
    """

    create: tuple[str, ...]
    delete: tuple[GPUUnit, ...]
    workers: FunctionWorkers
    revision: str
    last_serial: int
    reason: str
    message: str
    failures: int = 0
    last_failure_time: str | None = None
    replaced: int = 0
    replaced_serial: int = 0
    retry_at: datetime | None = None
    is_limited: bool = False


def next_steps(
    function: GPUFunction, owned: Sequence[GPUUnit], joined: Sequence[GPUUnit], *, now: datetime, allowance: int
) -> FunctionPlan:
    """The steps that bring the function closer to `minWorkers` workers of its current revision.

    `allowance` is how many workers may be created now.

    Guarantees:
        - Units that joined count as workers, ready or not: none is created beside them. They are never deleted or
          replaced. A ready worker makes room only for one that is ready.
        - A worker whose spec was edited counts as one of an old revision.
        - A paused function keeps its workers.
        - Names are never reused while the function exists.
        - Numbers, order and pace are those of `turnover`. A worker that drains no longer counts, and may hold its GPU
          for an hour: its replacement does not wait for it.
    """
    revision = revision_of(worker_spec(function))
    existing, members = _living(owned), _living(joined)
    current = [unit for unit in existing if is_current(unit, revision)]
    old = [unit for unit in existing if not is_current(unit, revision)]
    serials = partial(serial_of, function)
    streak = failure_streak(_record(function, revision), serials, current, existing, (), now)
    wanted = function.spec.scaling.min_workers
    own = max(wanted - len(members), min(wanted - _ready(members), _ready(current)), 0)
    turn = turnover(own, current, old, streak, serials, now=now, allowance=allowance)
    workers = _numbers(max(wanted, len(members)), owned, joined)
    last = _last_serial(function, owned)
    reason, message = _ready_reason(function, workers, old, streak, _waiting(current, members), turn.failures)
    return FunctionPlan(
        create=tuple(worker_name(function, last + number) for number in range(1, turn.create + 1)),
        delete=turn.delete,
        workers=workers,
        revision=revision,
        last_serial=last + turn.create,
        reason=reason,
        message=message,
        failures=streak.failures,
        last_failure_time=streak.last_failure_time,
        replaced=turn.replaced,
        replaced_serial=turn.replaced_serial,
        retry_at=turn.retry_at,
        is_limited=turn.is_limited,
    )


def without_workers(
    function: GPUFunction, owned: Sequence[GPUUnit], joined: Sequence[GPUUnit], reason: str, message: str
) -> FunctionPlan:
    """The steps of a function that must have no workers of its own, and why."""
    return FunctionPlan(
        create=(),
        delete=tuple(_living(owned)),
        workers=_numbers(0, owned, joined),
        revision=revision_of(worker_spec(function)),
        last_serial=_last_serial(function, owned),
        reason=reason,
        message=message,
    )


def reserved_status(function: GPUFunction, plan: FunctionPlan, now: datetime) -> GPUFunctionStatus:
    """The status with the serial numbers of the plan, and nothing else of it."""
    return evolve(function.status, last_serial=plan.last_serial, last_sync_time=format_seconds(now))


def function_status(function: GPUFunction, plan: FunctionPlan, now: datetime) -> GPUFunctionStatus:
    """The status after the plan; the function's own status object if nothing but the time would change."""
    before = function.status
    condition = Condition(
        READY_CONDITION,
        "True" if plan.reason == FUNCTION_READY else "False",
        plan.reason,
        plan.message,
        observed_generation=function.metadata.generation,
    )
    after = evolve(
        before,
        phase=phase_of(plan.reason),
        workers=plan.workers,
        revision=plan.revision,
        observed_generation=function.metadata.generation,
        last_serial=plan.last_serial or None,
        start_failures=plan.failures or None,
        last_failure_time=plan.last_failure_time,
        replaced=plan.replaced or None,
        replaced_serial=plan.replaced_serial or None,
        conditions=set_condition(before.conditions, condition, now),
    )
    return before if after == before else evolve(after, last_sync_time=format_seconds(now))


def _living(units: Sequence[GPUUnit]) -> list[GPUUnit]:
    return [unit for unit in units if unit.metadata.deletion_timestamp is None]


def _numbers(desired: int, owned: Sequence[GPUUnit], joined: Sequence[GPUUnit]) -> FunctionWorkers:
    workers = (*owned, *joined)
    living = _living(workers)
    ready = _ready(living)
    return FunctionWorkers(desired, ready, len(living) - ready, len(workers) - len(living))


def _ready(units: Sequence[GPUUnit]) -> int:
    return sum(map(is_ready_unit, units))


def _record(function: GPUFunction, revision: str) -> FailureRecord:
    status = function.status
    return FailureRecord(
        status.start_failures or 0,
        status.last_failure_time,
        status.replaced or 0,
        status.replaced_serial or 0,
        is_current=status.revision == revision,
    )


def _last_serial(function: GPUFunction, owned: Sequence[GPUUnit]) -> int:
    # The names cover a status that was wiped.
    return max([function.status.last_serial or 0, *(serial_of(function, unit.metadata.name) for unit in owned)])


def _waiting(current: Sequence[GPUUnit], members: Sequence[GPUUnit]) -> str:
    """What the function waits for; "" if unknown."""
    unschedulable = [unit for unit in (*current, *members) if is_unschedulable(unit)]
    if unschedulable:
        return f"{len(unschedulable)} are unschedulable: {_ready_message(unschedulable[0])}"
    failed = [unit for unit in members if unit.status.phase == FAILED]
    return f"unit {failed[0].metadata.name}, which joined, failed: {_ready_message(failed[0])}" if failed else ""


def _ready_reason(
    function: GPUFunction,
    workers: FunctionWorkers,
    old: Sequence[GPUUnit],
    streak: FailureStreak,
    waiting: str,
    failures: str,
) -> tuple[str, str]:
    """Reason and message of the Ready condition. A failed worker is reported even if later ones became ready."""
    desired, ready = workers.desired or 0, workers.ready or 0
    is_full = ready >= desired
    count = (
        f"{min(ready, desired)} of {desired} workers are ready" if desired else "no worker is wanted: minWorkers is 0"
    )
    replacing = f"{len(old)} of an old revision are being replaced" if old else ""
    detail = f" {streak.failed[0].metadata.name}: {_ready_message(streak.failed[0])}" if streak.failed else ""
    state = "; ".join(filter(None, (count, replacing, failures, "" if is_full else waiting)))
    message = f"{state[0].upper()}{state[1:]}.{detail}"
    if function.spec.paused:
        return FUNCTION_PAUSED, f"Invocations are accepted, and none starts. {message}"
    if is_full and not old:
        return FUNCTION_READY, message
    if streak.is_stopped:
        return STARTS_STOPPED, message
    return POD_STARTUP_FAILED if streak.failed else FUNCTION_PROGRESSING, message


def _ready_message(unit: GPUUnit) -> str:
    ready = find_condition(unit.status.conditions, READY_CONDITION)
    return (ready.message if ready is not None else None) or "no reason given"
