"""Pool plans, case by case."""

from datetime import timedelta

import pytest
from attrs import evolve

from gpuruntime.api import reasons
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.stockpool import StockPool, StockPoolStatus
from gpuruntime.desired.pools.plan import PoolPlan, next_steps, pool_status
from gpuruntime.desired.pools.units import serial_of, unit_name
from gpuruntime.meta import find_condition
from tests.desired.pool_scenes import NOW, active, claimed, pool, stock


def steps(owner: StockPool, *units: GPUUnit, active: tuple[GPUUnit, ...] = (), allowance: int = 100) -> PoolPlan:
    return next_steps(owner, units, active, now=NOW, allowance=allowance)


def serials(owner: StockPool, plan: PoolPlan) -> tuple[list[int], list[int]]:
    """The serial numbers of the units that the plan creates, and of those that it deletes."""
    return (
        [serial_of(owner, name) for name in plan.create],
        [serial_of(owner, unit.metadata.name) for unit in plan.delete],
    )


def test_an_empty_pool_creates_all_its_units_under_its_own_names() -> None:
    owner = pool(3)

    plan = steps(owner)

    assert plan.create == tuple(unit_name(owner, serial) for serial in (1, 2, 3))
    assert (plan.delete, plan.available, plan.last_serial, plan.reason) == ((), 0, 3, reasons.POOL_PROGRESSING)


def test_a_full_pool_does_nothing_and_is_ready() -> None:
    owner = pool(2)

    plan = steps(owner, stock(owner, 1), stock(owner, 2))

    assert serials(owner, plan) == ([], [])
    assert (plan.available, plan.reason) == (2, reasons.POOL_READY)
    assert "2 of 2" in plan.message


@pytest.mark.parametrize("state", ["starting", "failed", "unschedulable"])
def test_a_unit_that_is_not_ready_counts_as_a_replica(state: str) -> None:
    owner = pool(2)

    plan = steps(owner, stock(owner, 1), stock(owner, 2, state))

    assert serials(owner, plan) == ([], [])
    assert plan.available == 1


def test_the_allowance_limits_creations_and_the_plan_is_marked_limited() -> None:
    owner = pool(5)

    plan = steps(owner, allowance=2)

    assert serials(owner, plan) == ([1, 2], [])
    assert plan.limited


def test_a_claimed_unit_is_neither_deleted_nor_replaced_until_it_is_gone() -> None:
    owner = pool(2)
    ready, taken = stock(owner, 1), claimed(stock(owner, 2))

    plan = steps(owner, ready, taken)
    emptied = steps(evolve(owner, spec=evolve(owner.spec, replicas=0)), ready, taken)

    assert serials(owner, plan) == ([], [])
    assert "is being handed over" in plan.message
    assert serials(owner, emptied) == ([], [1])


def test_a_pool_refills_only_when_the_active_unit_is_scheduled() -> None:
    owner = pool(2)
    ready, taken = stock(owner, 1), stock(owner, 2)

    waiting = steps(owner, ready, active=(active(taken, bound=False),))
    both = steps(owner, ready, claimed(taken), active=(active(taken, bound=False),))
    bound = steps(owner, ready, active=(active(taken, bound=True),))

    assert serials(owner, waiting) == ([], [])
    assert "tenants/demo" in waiting.message
    assert serials(owner, both) == ([], [])
    assert serials(owner, bound) == ([3], [])
    assert (waiting.allocated, bound.allocated) == (1, 1)


@pytest.mark.parametrize(
    "reason",
    [
        reasons.ADMISSION_REFUSED,
        reasons.DEPLOYMENT_SYNC_FAILED,
        reasons.FOREIGN_OBJECT,
        reasons.INVALID_SPEC,
        reasons.QUOTA_EXCEEDED,
    ],
)
def test_an_active_unit_without_a_pod_does_not_block_the_refill(reason: str) -> None:
    owner = pool(2)
    taken = stock(owner, 2)

    refused = steps(owner, stock(owner, 1), active=(active(taken, bound=False, reason=reason),))
    unschedulable = steps(owner, stock(owner, 1), active=(active(taken, bound=False, reason=reasons.UNSCHEDULABLE),))

    assert serials(owner, refused) == ([3], [])
    assert (refused.allocated, "tenants/demo" in refused.message) == (1, False)
    assert serials(owner, unschedulable) == ([], [])


def test_without_an_allowance_nothing_is_created_replaced_or_counted() -> None:
    tired = StockPoolStatus(failures=3, last_failure_time="2026-01-02T03:00:00Z", last_serial=3, observed_generation=3)
    stopped, due = pool(3, status=tired), pool(1, status=evolve(tired, failures=1, last_serial=1))

    plans = [
        steps(pool(3), allowance=0),
        steps(stopped, *(stock(stopped, serial, "failed") for serial in (1, 2, 3)), allowance=0),
        steps(due, stock(due, 1, "failed"), allowance=0),
    ]

    assert [(plan.create, plan.delete) for plan in plans] == [((), ())] * 3
    assert [(plan.last_serial, plan.replaced) for plan in plans] == [(0, 0), (3, 0), (1, 0)]
    assert all(plan.limited for plan in plans)
    assert not any("replacement is starting" in plan.message for plan in plans)


def test_scaling_down_deletes_units_that_are_not_ready_first_and_then_the_newest() -> None:
    owner = pool(1)

    plan = steps(owner, stock(owner, 1), stock(owner, 2, "starting"), stock(owner, 3))

    assert serials(owner, plan) == ([], [2, 3])


def test_scaling_to_zero_deletes_all_units_and_is_reported() -> None:
    owner = pool(0)

    plan = steps(owner, stock(owner, 1), stock(owner, 2, "failed"))

    assert sorted(serials(owner, plan)[1]) == [1, 2]
    assert plan.reason == reasons.SCALED_TO_ZERO
    assert pool_status(owner, plan, NOW).phase == reasons.EMPTY


def test_units_of_an_old_spec_are_replaced_one_by_one() -> None:
    owner = pool(2)
    old = [stock(owner, 1, old=True), stock(owner, 2, old=True)]

    first = steps(owner, *old)
    starting = steps(owner, *old, stock(owner, 3, "starting"))
    ready = steps(owner, *old, stock(owner, 3))
    last = steps(owner, old[0], stock(owner, 3), stock(owner, 4))

    assert serials(owner, first) == ([3], [])
    assert serials(owner, starting) == ([], [])
    assert serials(owner, ready) == ([], [2])
    assert serials(owner, last) == ([], [1])
    assert first.reason == reasons.POOL_READY
    assert "2 of an old spec" in first.message


def test_an_unschedulable_replacement_is_reported_and_nothing_is_deleted_for_it() -> None:
    owner = pool(1)

    plan = steps(owner, stock(owner, 1, old=True), stock(owner, 2, "unschedulable"))

    assert serials(owner, plan) == ([], [])
    assert "1 are unschedulable" in plan.message
    assert "0/4 nodes are available" in plan.message


def test_an_old_unit_that_is_not_ready_is_deleted_at_once() -> None:
    owner = pool(2)

    plan = steps(owner, stock(owner, 1, old=True), stock(owner, 2, "unschedulable", old=True))

    assert serials(owner, plan) == ([3], [2])


def test_three_failures_in_a_row_stop_the_pool_for_half_a_minute() -> None:
    owner = pool(10)
    failed = [stock(owner, serial, "failed") for serial in (1, 2, 3)]

    plan = steps(owner, *failed)
    status = pool_status(owner, plan, NOW)
    later = next_steps(evolve(owner, status=status), failed, (), now=NOW + timedelta(seconds=30), allowance=5)

    assert serials(owner, plan) == ([], [])
    assert (plan.reason, plan.retry_at) == (reasons.REFILL_STOPPED, NOW + timedelta(seconds=30))
    assert "3 failed" in plan.message
    assert "no such image" in plan.message
    assert (status.phase, status.failures) == (reasons.FAILED, 3)
    assert serials(owner, later) == ([4], [])


def test_a_stopped_pool_retries_one_unit_at_a_time_and_doubles_the_wait() -> None:
    owner = pool(10, status=StockPoolStatus(failures=3, last_failure_time="2026-01-02T03:00:00Z"))
    failed = [stock(owner, serial, "failed") for serial in (1, 2, 3)]

    trying = steps(owner, *failed, stock(owner, 4, "starting"))
    again = steps(owner, *failed, stock(owner, 4, "failed"))

    assert serials(owner, trying) == ([], [])
    assert again.retry_at == NOW + timedelta(seconds=60)


def test_no_next_retry_is_announced_while_a_replacement_is_starting() -> None:
    owner = pool(10, status=StockPoolStatus(failures=3, last_failure_time="2026-01-02T03:00:00Z"))
    failed = [stock(owner, serial, "failed") for serial in (1, 2, 3)]

    begun = steps(owner, *failed)
    under_way = steps(owner, *failed, stock(owner, 4, "starting"))

    assert serials(owner, begun) == ([4], [])
    assert "3 failed" in begun.message
    assert "replacement is starting" in begun.message
    assert under_way.message == begun.message


def test_a_failure_is_reported_even_if_a_later_unit_is_ready() -> None:
    owner = pool(3)

    plan = steps(owner, stock(owner, 1, "failed"), stock(owner, 2, "failed"), stock(owner, 3))

    quoted = ("1 of 3", "2 failed", "2026-01-02T03:04:35Z", f"{unit_name(owner, 1)}: no such image")
    assert (plan.reason, plan.failures) == (reasons.POD_STARTUP_FAILED, 0)
    assert all(part in plan.message for part in quoted)


def test_a_failing_new_spec_is_reported_while_old_units_are_ready() -> None:
    owner = pool(2)

    plan = steps(owner, stock(owner, 1, old=True), stock(owner, 2, old=True), stock(owner, 3, "failed"))

    failure = f"{unit_name(owner, 3)}: no such image"
    quoted = ("2 of 2", "2 of an old spec", "1 failed", "2026-01-02T03:04:35Z", failure)
    assert (serials(owner, plan), plan.reason) == (([], []), reasons.POOL_READY)
    assert all(part in plan.message for part in quoted)


def test_a_unit_that_became_ready_ends_the_failure_streak() -> None:
    owner = pool(10)
    failed = [stock(owner, serial, "failed") for serial in (1, 2, 3)]

    plan = steps(owner, *failed, stock(owner, 4))

    assert plan.failures == 0
    assert len(plan.create) == 6


def test_a_name_is_never_reused() -> None:
    owner = pool(1, status=StockPoolStatus(last_serial=4))

    of_status = steps(owner)
    of_unit = steps(owner, claimed(stock(owner, 8)), active=(active(stock(owner, 8), bound=True),))
    of_active = steps(owner, active=(active(stock(owner, 6), bound=True),))

    assert serials(owner, of_status) == ([5], [])
    assert of_unit.last_serial == 8
    assert serials(owner, of_active) == ([7], [])


def test_units_of_an_earlier_pool_of_the_same_name_are_not_touched() -> None:
    owner = pool(1)
    earlier = evolve(owner, metadata=evolve(owner.metadata, uid="another-uid"))

    plan = steps(owner, stock(earlier, 1))

    assert serials(owner, plan) == ([1], [])
    assert plan.available == 0


def test_an_unchanged_status_is_the_identical_object() -> None:
    owner = pool(1)
    updated = evolve(owner, status=pool_status(owner, steps(owner, stock(owner, 1)), NOW))

    again = pool_status(updated, steps(updated, stock(owner, 1)), NOW + timedelta(hours=1))

    assert again is updated.status
    condition = find_condition(again.conditions, reasons.READY_CONDITION)
    assert condition is not None
    assert (condition.status, again.observed_generation) == ("True", 3)
