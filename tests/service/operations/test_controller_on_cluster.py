"""An operation that a process gives up is taken up again, also by that very process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any, ClassVar

import pytest

from gpuruntime.api.operation import RUNNING, SUCCEEDED, Operation, OperationResult
from gpuruntime.control import Cache, Controller, Watch, enqueue_object, write_status
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import UnavailableError
from gpuruntime.kube.transport.server_time import ServerTime
from gpuruntime.kube.transport.transport import Transport
from gpuruntime.service.operations.controller import OperationUpkeep, pause_before
from gpuruntime.service.operations.lease import OperationLease, Outcome
from gpuruntime.service.operations.operations import Operations
from gpuruntime.service.operations.record import LeaseTiming, ended
from gpuruntime.service.operations.worker import OperationRunner
from tests.control.scenes import running
from tests.service.service_scenes import ServiceWorld, looking_at

QUICK = LeaseTiming(lease=2.0, renew=1.5, period=0.3)


class Flaky:
    """A work that fails at first."""

    type: ClassVar = "flaky"

    def __init__(self) -> None:
        self.attempts: list[int] = []

    async def run(self, hold: OperationLease) -> Outcome:
        self.attempts.append(hold.attempt)
        if not hold.is_resumed:
            raise UnavailableError("the server is away")
        return Outcome(OperationResult("GPUUnit", "demo"))


class Lingering:
    """A work that has more to do once the answer is known, and does not get to it for a while."""

    type: ClassVar = "lingering"

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    async def run(self, _hold: OperationLease) -> Outcome:
        async def rest() -> None:
            await self.go_on.wait()

        return Outcome(OperationResult("GPUUnit", "demo"), rest=rest)


async def test_an_answer_that_is_certain_is_given_again_before_the_rest_is_done(world: ServiceWorld) -> None:
    work = Lingering()

    async with upkeep(world, OperationRunner([work]), LeaseTiming()) as operations:
        first = await operations.perform("order-1", work.type, world.seeds(1), within=30)
        again = await operations.perform("order-1", work.type, world.seeds(1), within=30)
        (written,) = await world.operations()
        known = operations.as_known(written)
        work.go_on.set()
        async with looking_at(world.access, Operation, world.active) as seen:
            await seen.until(lambda store: [item.status.state for item in store.list().items] == [SUCCEEDED])

    assert (first.is_replay, again.is_replay) == (False, True)
    assert first.result == again.result
    assert (written.status.state, written.status.result) == (RUNNING, first.result)
    assert (known.status.state, known.status.result) == (SUCCEEDED, first.result)


async def test_what_a_process_gave_up_it_takes_up_again_when_its_hold_has_run_out(world: ServiceWorld) -> None:
    work = Flaky()
    runner = OperationRunner([work])

    async with upkeep(world, runner) as operations:
        with pytest.raises(UnavailableError, match="the server is away"):
            await operations.perform("order-1", work.type, world.seeds(1), within=30)
        async with looking_at(world.access, Operation, world.active) as seen:
            await seen.until(lambda store: [item.status.state for item in store.list().items] == [SUCCEEDED])

    ends = {end: sum(durations.counts) for (_, end), durations in runner.counters.durations.items()}
    assert work.attempts == [1, 2]
    assert runner.counters.taken_over == {work.type: 1}
    assert ends == {"succeeded": 1, "failed": 0, "withdrawn": 0, "interrupted": 1}


async def test_of_what_has_ended_the_newest_are_kept_and_what_has_not_ended_is_not_counted(world: ServiceWorld) -> None:
    result, now = OperationResult("GPUUnit", "demo"), datetime.now(UTC)
    later = ServerTime()
    later.note(format_datetime(now + timedelta(hours=1)))
    for minute in (2, 4, 1, 3):
        made = await world.abandon(f"ended-{minute}", "flaky", world.seeds(1))
        then = now + timedelta(minutes=minute)
        await write_status(world.admin, made, ended(made.status, then, result=result, error=None))
    await world.abandon("not-ended", "of_another_version", world.seeds(1))
    runner = OperationRunner([Flaky()])

    async with upkeep(world, runner, time=later, most=2), looking_at(world.access, Operation, world.active) as seen:
        await seen.until(lambda store: store.resource_version != "" and len(store) <= 3)

    left = sorted(found.spec.operation_id for found in await world.operations())
    assert left == ["ended-3", "ended-4", "not-ended"]


@pytest.mark.parametrize(("attempts", "seconds"), [(1, 15.0), (2, 30.0), (5, 240.0), (7, 600.0), (10_000, 600.0)])
def test_what_never_succeeds_is_tried_less_and_less_often(attempts: int, seconds: float) -> None:
    assert pause_before(attempts, 15.0) == seconds


@asynccontextmanager
async def upkeep(
    world: ServiceWorld, runner: OperationRunner, timing: LeaseTiming = QUICK, **options: Any
) -> AsyncIterator[Operations]:
    """Operations with somebody who looks after them, for the length of the block."""
    credentials = from_kubeconfig(world.access.kubeconfig)
    async with Transport(credentials, user_agent="tests") as transport, running(Cache(transport)) as cache:
        records = cache.informer(Operation, namespaces=[world.active])
        operations = Operations(
            transport, records, runner, namespace=world.active, field_manager="t", identity="me", timing=timing
        )
        known = {"time": transport.server_time, "operations": operations, "runner": runner, **options}
        keeper = OperationUpkeep(records.store, Client(transport, field_manager="t"), **known)
        controller = Controller("upkeep", keeper, [Watch(records, enqueue_object())])
        tasks = [asyncio.create_task(operations.run()), asyncio.create_task(controller.run())]
        await records.synced()
        try:
            yield operations
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
