"""Function plans, case by case."""

from datetime import timedelta

import pytest
from attrs import evolve

from gpuruntime.api import reasons
from gpuruntime.api.gpufunction import FunctionWorkers, GPUFunction, GPUFunctionStatus
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import CLAIM_ID
from gpuruntime.desired.functions.plan import (
    FunctionPlan,
    function_status,
    next_steps,
    reserved_status,
    without_workers,
)
from gpuruntime.desired.functions.workers import serial_of, worker_spec
from gpuruntime.desired.pools.units import revision_of
from gpuruntime.meta import find_condition
from tests.desired.function_scenes import function, joined, worker
from tests.desired.pool_scenes import NOW


def steps(owner: GPUFunction, *owned: GPUUnit, joined: tuple[GPUUnit, ...] = (), allowance: int = 100) -> FunctionPlan:
    return next_steps(owner, owned, joined, now=NOW, allowance=allowance)


def serials(owner: GPUFunction, plan: FunctionPlan) -> tuple[list[int], list[int]]:
    """The serial numbers of the workers that the plan creates, and of those that it deletes."""
    return (
        [serial_of(owner, name) for name in plan.create],
        [serial_of(owner, unit.metadata.name) for unit in plan.delete],
    )


def tired(owner: GPUFunction, failures: int) -> GPUFunctionStatus:
    """The status after this number of consecutive failures, the last of them long ago."""
    revision = revision_of(worker_spec(owner))
    return GPUFunctionStatus(start_failures=failures, last_failure_time="2026-01-02T03:00:00Z", revision=revision)


def test_a_new_function_creates_its_workers() -> None:
    plan = steps(function(3))

    assert plan.create == ("hello-1", "hello-2", "hello-3")
    assert (plan.delete, plan.last_serial, plan.reason) == ((), 3, reasons.FUNCTION_PROGRESSING)
    assert plan.workers == FunctionWorkers(desired=3, ready=0, starting=0, draining=0)


def test_a_function_with_its_workers_does_nothing_and_is_ready() -> None:
    owner = function(2)

    plan = steps(owner, worker(owner, 1), worker(owner, 2))

    assert serials(owner, plan) == ([], [])
    assert (plan.reason, plan.message) == (reasons.FUNCTION_READY, "2 of 2 workers are ready.")


def test_a_function_that_wants_no_worker_is_ready_and_says_so() -> None:
    plan = steps(function())

    assert (plan.create, plan.reason) == ((), reasons.FUNCTION_READY)
    assert plan.message == "No worker is wanted: minWorkers is 0."


def test_draining_workers_are_counted_apart_and_replaced() -> None:
    owner = function(1)

    plan = steps(owner, worker(owner, 1, is_draining=True), worker(owner, 2, "starting"))

    assert serials(owner, plan) == ([], [])
    assert plan.workers == FunctionWorkers(desired=1, ready=0, starting=1, draining=1)
    assert serials(owner, steps(owner, worker(owner, 1, is_draining=True))) == ([2], [])


def test_a_worker_of_an_old_revision_goes_when_a_new_one_is_ready() -> None:
    owner = function(2)
    old = [worker(owner, serial, is_old=True) for serial in (1, 2)]

    first = steps(owner, *old)
    waiting = steps(owner, *old, worker(owner, 3, "starting"))
    second = steps(owner, *old, worker(owner, 3))

    assert serials(owner, first) == ([3], [])
    assert serials(owner, waiting) == ([], [])
    assert serials(owner, second) == ([], [2])
    assert (first.reason, first.workers.ready) == (reasons.FUNCTION_PROGRESSING, 2)
    assert "2 of an old revision are being replaced" in first.message


@pytest.mark.parametrize("state", ["ready", "starting", "failed", "unschedulable"])
def test_units_that_joined_count_ready_or_not_and_are_never_deleted(state: str) -> None:
    owner = function(2)
    mine = (joined(1, state), joined(2))

    enough = steps(owner, joined=mine)
    surplus = steps(owner, worker(owner, 1, "starting"), joined=mine)
    none = steps(function(0), joined=mine)

    assert serials(owner, enough) == ([], [])
    assert serials(owner, surplus) == ([], [1])
    assert (none.delete, none.workers.desired) == ((), 2)
    assert serials(owner, steps(owner, joined=mine[:1])) == ([1], [])


@pytest.mark.parametrize("state", ["starting", "failed", "unschedulable"])
def test_a_ready_worker_makes_room_for_a_unit_that_joined_once_that_is_ready(state: str) -> None:
    owner = function(1)

    before = steps(owner, worker(owner, 1), joined=(joined(1, state),))
    after = steps(owner, worker(owner, 1), joined=(joined(1),))

    assert (serials(owner, before), before.workers.ready) == (([], []), 1)
    assert serials(owner, after) == ([], [1])


def test_a_unit_that_joined_is_ready_with_the_claim_by_which_the_api_made_it() -> None:
    unit = joined(1)
    claimed = evolve(unit, metadata=evolve(unit.metadata, annotations=unit.metadata.annotations | {CLAIM_ID: "one"}))

    plan = steps(function(1), joined=(claimed,))

    assert (plan.reason, plan.message) == (reasons.FUNCTION_READY, "1 of 1 workers are ready.")


def test_a_unit_that_joined_and_failed_is_in_the_message() -> None:
    plan = steps(function(1), joined=(joined(1, "failed"),))

    assert plan.reason == reasons.FUNCTION_PROGRESSING
    assert plan.message == "0 of 1 workers are ready; unit mine-1, which joined, failed: no such image."


def test_a_paused_function_keeps_its_workers() -> None:
    owner = function(2, paused=True)

    plan = steps(owner, worker(owner, 1), worker(owner, 2))
    missing = steps(owner, worker(owner, 1))

    assert (plan.delete, plan.reason) == ((), reasons.FUNCTION_PAUSED)
    assert serials(owner, missing) == ([2], [])
    assert "1 of 2 workers are ready" in missing.message


def test_three_failed_starts_stop_the_others_until_it_is_time_for_one() -> None:
    owner = function(5)
    owner = evolve(owner, status=tired(owner, 3))
    failed = [worker(owner, serial, "failed") for serial in (1, 2, 3)]
    waiting = evolve(owner, status=evolve(owner.status, last_failure_time="2026-01-02T03:04:00Z"))

    late, early = steps(owner, *failed), steps(waiting, *failed)

    assert (serials(owner, late), late.reason) == (([4], []), reasons.STARTS_STOPPED)
    assert (serials(owner, early), early.reason) == (([], []), reasons.STARTS_STOPPED)
    assert early.retry_at == NOW.replace(second=30)
    assert "no such image" in early.message


def test_a_new_revision_starts_a_new_count_of_failures_and_more_workers_do_not() -> None:
    owner = function(1)
    status = evolve(tired(owner, 5), replaced=5, replaced_serial=5, last_serial=5)
    scaled, changed = function(2, status=status), function(2, status=status, image="mended")

    stopped, mended = steps(scaled), steps(changed)

    assert (stopped.failures, stopped.reason) == (5, reasons.STARTS_STOPPED)
    assert (mended.failures, serials(changed, mended)) == (0, ([6, 7], []))


def test_a_failed_worker_is_replaced_after_a_while() -> None:
    owner = function(1)
    owner = evolve(owner, status=tired(owner, 1))

    due = steps(owner, worker(owner, 1, "failed"))

    assert serials(owner, due) == ([2], [1])
    assert (due.replaced, due.replaced_serial, due.reason) == (1, 1, reasons.POD_STARTUP_FAILED)


def test_numbers_come_after_all_that_were_given() -> None:
    stored = steps(function(1, status=GPUFunctionStatus(last_serial=7)))
    wiped = function(3)

    assert stored.create == ("hello-8",)
    assert steps(wiped, worker(wiped, 9), worker(wiped, 2)).create == ("hello-10",)


def test_without_an_allowance_nothing_is_created() -> None:
    plan = steps(function(5), allowance=2)

    assert (plan.create, plan.is_limited) == (("hello-1", "hello-2"), True)
    assert steps(function(5), allowance=0).create == ()


def test_a_function_that_must_have_no_workers_deletes_its_own_and_keeps_the_units_of_others() -> None:
    owner = function(2)
    mine, going = joined(1), worker(owner, 2, is_draining=True)

    plan = without_workers(owner, [worker(owner, 1), going], [mine], reasons.REQUEST_ID_TAKEN, "Taken.")

    assert serials(owner, plan) == ([], [1])
    assert plan.workers == FunctionWorkers(desired=0, ready=2, starting=0, draining=1)
    assert (plan.reason, plan.message) == (reasons.REQUEST_ID_TAKEN, "Taken.")


def test_numbers_are_stored_before_workers_are_created_and_nothing_else_changes() -> None:
    owner = function(2)

    reserved = reserved_status(owner, steps(owner), NOW)

    assert reserved == GPUFunctionStatus(last_serial=2, last_sync_time="2026-01-02T03:04:05Z")


def test_the_status_of_an_unchanged_function_is_the_same_object() -> None:
    owner = function(1)
    first = evolve(owner, status=function_status(owner, steps(owner, worker(owner, 1)), NOW))

    again = function_status(first, steps(first, worker(owner, 1)), NOW + timedelta(hours=1))

    ready = find_condition(first.status.conditions, "Ready")
    assert again is first.status
    assert ready is not None
    assert (ready.status, ready.observed_generation) == ("True", 3)
    assert (first.status.phase, first.status.observed_generation) == ("Ready", 3)
