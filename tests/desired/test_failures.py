"""Pool plans with failing units, over hours."""

from datetime import datetime, timedelta

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.api import reasons
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.stockpool import StockPoolStatus
from gpuruntime.desired.failures import is_unschedulable
from gpuruntime.desired.pools.plan import PoolPlan, next_steps, pool_status
from gpuruntime.desired.pools.units import is_ready_stock, serial_of
from gpuruntime.meta.timestamps import format_seconds
from tests.desired.pool_scenes import NOW, active, claimed, pool, stock

HALF_A_MINUTE = timedelta(seconds=30)


class SimulatedPool:
    """A pool that is reconciled repeatedly; `outcomes` are the outcomes of its first units, later ones become ready."""

    def __init__(self, replicas: int, outcomes: list[str]) -> None:
        self.owner = pool(replicas)
        self.units: list[GPUUnit] = []
        self.now = NOW
        self.outcomes = outcomes

    def reconcile(self) -> PoolPlan:
        """One reconcile: the plan is executed, and every new unit reaches its outcome at once."""
        plan = next_steps(self.owner, self.units, (), now=self.now, allowance=10)
        created = [self.created(serial_of(self.owner, name)) for name in plan.create]
        self.units = [unit for unit in self.units if unit not in plan.delete] + created
        self.owner = evolve(self.owner, status=pool_status(self.owner, plan, self.now))
        return plan

    def settle(self) -> PoolPlan:
        """The plan of the first reconcile that has nothing to do."""
        while (plan := self.reconcile()).create or plan.delete:
            pass
        return plan

    def created(self, serial: int) -> GPUUnit:
        """The unit with this serial number, created now."""
        unit = stock(self.owner, serial, self.outcomes[serial - 1] if serial <= len(self.outcomes) else "ready")
        return evolve(unit, metadata=evolve(unit.metadata, creation_timestamp=format_seconds(self.now)))


def test_a_failed_unit_of_a_full_pool_is_replaced_after_half_a_minute() -> None:
    owner = pool(2)
    units = [stock(owner, 1), stock(owner, 2, "failed")]

    first = next_steps(owner, units, (), now=NOW, allowance=10)
    updated = evolve(owner, status=pool_status(owner, first, NOW))
    early = next_steps(updated, units, (), now=NOW + HALF_A_MINUTE / 2, allowance=10)
    late = next_steps(updated, units, (), now=NOW + HALF_A_MINUTE, allowance=10)

    assert (first.create, first.delete, first.retry_at) == ((), (), NOW + HALF_A_MINUTE)
    assert (early.create, early.delete, early.retry_at) == ((), (), NOW + HALF_A_MINUTE)
    assert [serial_of(owner, name) for name in late.create] == [3]
    assert late.delete == (units[1],)
    assert "1 failed" in late.message


def test_a_pool_whose_units_all_fail_retries_with_growing_delays() -> None:
    simulated = SimulatedPool(3, ["failed"] * 100)

    waits, plan = [], simulated.settle()
    for _ in range(9):
        plan = simulated.settle()
        assert plan.retry_at is not None
        assert len(simulated.units) == 3
        waits.append((plan.retry_at - simulated.now).total_seconds())
        simulated.now = plan.retry_at

    assert waits == [30, 60, 120, 240, 480, 960, 1800, 1800, 1800]
    assert (plan.failures, plan.reason) == (11, reasons.REFILL_STOPPED)
    assert "11 failed" in plan.message
    assert simulated.owner.status.replaced == 8


def test_a_unit_that_becomes_ready_ends_the_streak_and_the_pool_fills_up() -> None:
    simulated = SimulatedPool(3, ["failed"] * 6)

    plan = simulated.settle()
    for _ in range(8):
        simulated.now = plan.retry_at or simulated.now
        plan = simulated.settle()

    assert [is_ready_stock(unit) for unit in simulated.units] == [True] * 3
    assert (plan.failures, plan.reason, simulated.owner.status.replaced) == (0, reasons.POOL_READY, None)


def test_a_failed_unit_is_replaced_even_if_others_are_unschedulable() -> None:
    owner = pool(3)
    units = [stock(owner, 1), stock(owner, 2, "failed"), stock(owner, 3, "unschedulable")]

    first = next_steps(owner, units, (), now=NOW, allowance=10)
    updated = evolve(owner, status=pool_status(owner, first, NOW))
    late = next_steps(updated, units, (), now=NOW + HALF_A_MINUTE, allowance=10)

    assert (first.create, first.delete, first.retry_at) == ((), (), NOW + HALF_A_MINUTE)
    assert all(part in first.message for part in ("1 failed", "2026-01-02T03:04:35Z", "1 are unschedulable"))
    assert [serial_of(owner, name) for name in late.create] == [4]
    assert late.delete == (units[1],)
    assert all(part in late.message for part in ("1 failed", "1 are unschedulable"))


@pytest.mark.parametrize(("failed", "seconds"), [(2, 30), (5, 120)])
def test_failed_units_are_replaced_one_at_a_time_on_a_full_cluster(failed: int, seconds: int) -> None:
    simulated = SimulatedPool(6, ["failed"] * failed + ["unschedulable"] * 20)

    tries = []
    plan = simulated.settle()
    while plan.retry_at is not None:
        tries.append((plan.retry_at - simulated.now).total_seconds())
        simulated.now = plan.retry_at
        plan = simulated.settle()

    assert tries == [seconds] * failed
    assert [is_unschedulable(unit) for unit in simulated.units] == [True] * 6
    assert simulated.owner.status.last_serial == 6 + failed
    assert "6 are unschedulable" in plan.message
    assert "try" not in plan.message


def test_a_stopped_pool_retries_one_unit_at_a_time_even_if_they_are_unschedulable() -> None:
    simulated = SimulatedPool(6, ["failed"] * 3 + ["unschedulable"] * 20)
    simulated.units = [simulated.created(serial) for serial in (1, 2, 3)]

    sizes = []
    for _ in range(3):
        plan = simulated.settle()
        sizes.append(len(simulated.units))
        assert plan.retry_at == simulated.now + HALF_A_MINUTE
        simulated.now = plan.retry_at

    assert sizes == [3, 4, 5]


def test_a_replacement_waits_for_the_capacity_of_the_failed_unit() -> None:
    owner = pool(3, status=StockPoolStatus(failures=2, last_failure_time="2026-01-02T03:00:00Z", observed_generation=3))
    units = [stock(owner, 1, "failed"), stock(owner, 2, "starting"), stock(owner, 4, "unschedulable")]

    plan = next_steps(owner, units, (), now=NOW, allowance=10)

    assert (plan.create, plan.delete) == ((), ())
    assert all(part in plan.message for part in ("1 failed", "1 are unschedulable"))


def test_a_new_spec_resets_the_failures() -> None:
    tired = StockPoolStatus(
        failures=9, replaced=8, replaced_serial=8, last_failure_time="2026-01-02T03:04:00Z", observed_generation=2
    )
    owner = pool(2, status=tired)

    plan = next_steps(owner, [stock(owner, 9, "failed", old=True)], (), now=NOW, allowance=10)

    assert ([serial_of(owner, name) for name in plan.create], plan.failures) == ([10, 11], 0)


def test_a_claimed_unit_counts_as_a_success() -> None:
    owner = pool(3, status=StockPoolStatus(failures=4, replaced=4, replaced_serial=4, observed_generation=3))
    taken = stock(owner, 5)

    by_claim = next_steps(owner, [claimed(taken)], (), now=NOW, allowance=10)
    by_active = next_steps(owner, [], (active(taken, bound=True),), now=NOW, allowance=10)

    assert (by_claim.failures, by_active.failures) == (0, 0)


def test_no_failed_unit_is_replaced_while_a_hand_off_needs_its_capacity() -> None:
    owner = pool(1, status=StockPoolStatus(last_failure_time="2026-01-02T03:00:00Z", observed_generation=3))

    plan = next_steps(owner, [stock(owner, 1, "failed"), claimed(stock(owner, 2))], (), now=NOW, allowance=10)

    assert (plan.create, plan.delete) == ((), ())


@given(replicas=st.integers(1, 5), outcomes=st.lists(st.sampled_from(["ready", "failed"]), max_size=12))
def test_a_pool_whose_failures_end_becomes_full_and_never_exceeds_its_replicas(
    replicas: int, outcomes: list[str]
) -> None:
    simulated = SimulatedPool(replicas, outcomes)

    for _ in range(3 * len(outcomes) + 3):
        plan = simulated.reconcile()
        assert len(simulated.units) <= replicas
        simulated.now = plan.retry_at or simulated.now

    assert [is_ready_stock(unit) for unit in simulated.units] == [True] * replicas
    assert (
        next_steps(simulated.owner, simulated.units, (), now=simulated.now, allowance=10).reason == reasons.POOL_READY
    )


def ready_since(unit: GPUUnit, since: datetime) -> GPUUnit:
    """The unit, ready since this time."""
    (condition,) = unit.status.conditions
    known = evolve(condition, last_transition_time=format_seconds(since))
    return evolve(unit, status=evolve(unit.status, conditions=(known,)))


def test_stock_that_is_ready_for_moments_is_counted_until_the_pool_stops() -> None:
    """Every unit is ready for 2 seconds, then it crashes and stays failed."""
    owner, now, seen = pool(1), NOW, []
    for serial in range(1, 5):
        ready = [ready_since(stock(owner, serial), now)]
        moment = next_steps(owner, ready, (), now=now, allowance=10)
        owner = evolve(owner, status=pool_status(owner, moment, now))
        now += timedelta(seconds=2)
        failed = [stock(owner, serial, "failed")]
        noticed = next_steps(owner, failed, (), now=now, allowance=10)
        owner = evolve(owner, status=pool_status(owner, noticed, now))
        for _ in range(3):
            again = next_steps(owner, failed, (), now=now + timedelta(seconds=1), allowance=10)
            assert again.retry_at == noticed.retry_at
        seen.append((moment.failures, noticed.failures, noticed.reason))
        assert noticed.retry_at is not None
        now = noticed.retry_at
        replacing = next_steps(owner, failed, (), now=now, allowance=10)
        assert replacing.delete == tuple(failed)
        owner = evolve(owner, status=pool_status(owner, replacing, now))

    assert seen == [
        (0, 1, reasons.POD_STARTUP_FAILED),
        (1, 2, reasons.POD_STARTUP_FAILED),
        (2, 3, reasons.REFILL_STOPPED),
        (3, 4, reasons.REFILL_STOPPED),
    ]


def test_a_unit_ends_the_streak_when_it_has_been_ready_for_half_a_minute_and_the_pool_looks_then() -> None:
    status = StockPoolStatus(
        observed_generation=3, failures=3, replaced=3, replaced_serial=3, last_failure_time=format_seconds(NOW)
    )
    owner, since = pool(3, status=status), NOW + timedelta(minutes=5)
    units = [ready_since(stock(owner, 4), since)]

    on_trial = next_steps(owner, units, (), now=since + HALF_A_MINUTE / 2, allowance=10)
    proven = next_steps(owner, units, (), now=since + HALF_A_MINUTE, allowance=10)

    assert (on_trial.failures, on_trial.create, on_trial.retry_at) == (3, (), since + HALF_A_MINUTE)
    assert (proven.failures, len(proven.create), proven.retry_at) == (0, 2, None)


def test_a_claim_ends_the_streak_at_once() -> None:
    status = StockPoolStatus(observed_generation=3, failures=3, replaced=3, replaced_serial=3)
    owner = pool(1, status=status)

    plan = next_steps(owner, [claimed(stock(owner, 4))], (), now=NOW, allowance=10)

    assert plan.failures == 0
