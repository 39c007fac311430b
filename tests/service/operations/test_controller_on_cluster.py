"""Interrupted Operations are taken over, also by the same process; ended ones are pruned."""

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
from gpuruntime.service.operations.controller import OperationReconciler
from gpuruntime.service.operations.executor import OperationExecutor, OperationHandler
from gpuruntime.service.operations.lease import OperationLease, Outcome
from gpuruntime.service.operations.liveness import Liveness
from gpuruntime.service.operations.record import LeaseTiming, ended
from gpuruntime.service.operations.submit import Operations
from tests.control.scenes import running
from tests.service.service_scenes import ServiceWorld, looking_at

QUICK = LeaseTiming(lease=2.0, renew=1.5, period=0.3)


class Flaky:
    """A handler whose first attempt is interrupted."""

    type: ClassVar = "flaky"

    def __init__(self) -> None:
        self.attempts: list[int] = []

    async def run(self, lease: OperationLease) -> Outcome:
        self.attempts.append(lease.attempt)
        if lease.attempt == 1:
            raise UnavailableError("the server is away")
        return Outcome(OperationResult("GPUUnit", "demo"))


class Lingering:
    """A handler whose cleanup is blocked for a while."""

    type: ClassVar = "lingering"

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    async def run(self, _lease: OperationLease) -> Outcome:
        async def cleanup() -> None:
            await self.go_on.wait()

        return Outcome(OperationResult("GPUUnit", "demo"), cleanup=cleanup)


async def test_a_replay_gets_the_result_before_the_cleanup_is_done(world: ServiceWorld) -> None:
    handler = Lingering()

    async with reconciled(world, handler, LeaseTiming()) as (operations, _):
        first = await operations.perform("order-1", handler.type, world.seeds(1), within=30)
        again = await operations.perform("order-1", handler.type, world.seeds(1), within=30)
        (written,) = await world.operations()
        known = operations.as_known(written)
        handler.go_on.set()
        async with looking_at(world.access, Operation, world.active) as seen:
            await seen.until(lambda store: [item.status.state for item in store.list().items] == [SUCCEEDED])

    assert (first.is_replay, again.is_replay) == (False, True)
    assert first.result == again.result
    assert (written.status.state, written.status.result) == (RUNNING, first.result)
    assert (known.status.state, known.status.result) == (SUCCEEDED, first.result)


async def test_an_interrupted_attempt_is_taken_over_when_its_lease_has_expired(world: ServiceWorld) -> None:
    handler = Flaky()

    async with reconciled(world, handler) as (operations, executor):
        with pytest.raises(UnavailableError, match="the server is away"):
            await operations.perform("order-1", handler.type, world.seeds(1), within=30)
        async with looking_at(world.access, Operation, world.active) as seen:
            await seen.until(lambda store: [item.status.state for item in store.list().items] == [SUCCEEDED])

    ends = {end: sum(durations.counts) for (_, end), durations in executor.counters.durations.items()}
    assert handler.attempts == [1, 2]
    assert executor.counters.taken_over == {handler.type: 1}
    assert ends == {"succeeded": 1, "failed": 0, "withdrawn": 0, "interrupted": 1}


async def test_the_newest_ended_operations_are_kept_and_running_ones_do_not_count(world: ServiceWorld) -> None:
    result, now = OperationResult("GPUUnit", "demo"), datetime.now(UTC)
    later = ServerTime()
    later.note(format_datetime(now + timedelta(hours=1)))
    for minute in (2, 4, 1, 3):
        made = await world.abandon(f"ended-{minute}", "flaky", world.seeds(1))
        then = now + timedelta(minutes=minute)
        await write_status(world.admin, made, ended(made.status, then, result=result, error=None))
    await world.abandon("not-ended", "of_another_version", world.seeds(1))

    async with (
        reconciled(world, Flaky(), time=later, most=2),
        looking_at(world.access, Operation, world.active) as seen,
    ):
        await seen.until(lambda store: store.resource_version != "" and len(store) <= 3)

    left = sorted(found.spec.operation_id for found in await world.operations())
    assert left == ["ended-3", "ended-4", "not-ended"]


@asynccontextmanager
async def reconciled(
    world: ServiceWorld, handler: OperationHandler, timing: LeaseTiming = QUICK, **options: Any
) -> AsyncIterator[tuple[Operations, OperationExecutor]]:
    """Operations of one handler with their controller, for the length of the block."""
    credentials = from_kubeconfig(world.access.kubeconfig)
    async with Transport(credentials, user_agent="tests") as transport, running(Cache(transport)) as cache:
        records = cache.informer(Operation, namespaces=[world.active])
        executor = OperationExecutor(transport, [handler], field_manager="t", identity="me", timing=timing)
        operations = Operations(executor, records, Liveness(transport), namespace=world.active, field_manager="t")
        known = {"time": transport.server_time, "executor": executor, **options}
        reconciler = OperationReconciler(records.store, Client(transport, field_manager="t"), **known)
        controller = Controller("operation", reconciler, [Watch(records, enqueue_object())])
        tasks = [asyncio.create_task(executor.run()), asyncio.create_task(controller.run())]
        await records.synced()
        try:
            yield operations, executor
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
