from datetime import UTC, datetime

from gpuruntime.api.invocations import InvocationKey
from gpuruntime.dispatch.activator.leases.signing import Lease
from gpuruntime.dispatch.activator.runs.limits import DEFAULT_LIMITS
from gpuruntime.dispatch.activator.workers.worker import HeldRun, Worker
from tests.dispatch.activator.dispatch_scenes import identity_of


def run_of(worker: Worker, name: str) -> HeldRun:
    lease = Lease(InvocationKey("ns", "echo", name), "uid", name, 1, "", "", 1, datetime.now(UTC))
    return HeldRun(lease, worker, DEFAULT_LIMITS, 0.0)


def test_a_slot_is_free_when_its_result_has_come_and_not_before() -> None:
    worker = Worker(identity_of("w"), slots=2)
    one, two = run_of(worker, "one"), run_of(worker, "two")

    worker.begin(one)
    worker.begin(two)
    taken = worker.free
    worker.finish(one)
    finished = worker.free
    worker.forget(one)
    worker.forget(one)
    worker.forget(two)

    assert (taken, finished, worker.free) == (0, 1, 2)
    assert (worker.running, worker.committing) == (0, 0)


def test_a_worker_whose_results_are_not_committed_gets_nothing_more() -> None:
    worker = Worker(identity_of("w"), slots=1)
    one, two = run_of(worker, "one"), run_of(worker, "two")

    worker.begin(one)
    worker.finish(one)
    worker.begin(two)
    worker.finish(two)
    stuck = worker.free
    worker.forget(one)

    assert (stuck, worker.free) == (0, 1)


def test_a_worker_that_drains_rests_or_is_gone_has_no_free_slot() -> None:
    drains = Worker(identity_of("w"), slots=1, is_draining=True)
    rests = Worker(identity_of("w"), slots=1, rests=True)
    gone = Worker(identity_of("w"), slots=1)
    gone.close()

    assert [drains.free, rests.free, gone.free] == [0, 0, 0]


def test_a_worker_that_brings_more_than_its_slots_takes_no_slot_of_others() -> None:
    worker = Worker(identity_of("w"), slots=0)
    worker.begin(run_of(worker, "one"))

    assert worker.free == 0
