"""An operation that a process gives up is taken up again, also by that very process."""

import asyncio
from typing import ClassVar

import pytest

from gpuruntime.api.operation import SUCCEEDED, Operation, OperationResult
from gpuruntime.control import Cache, Controller, Watch, itself
from gpuruntime.control.leadership.fenced_transport import FencedCredentials
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import UnavailableError
from gpuruntime.kube.kubeconfig import from_kubeconfig
from gpuruntime.kube.transport import Transport
from gpuruntime.service.operation_hold import OperationHold, Outcome
from gpuruntime.service.operation_record import HoldTiming
from gpuruntime.service.operation_runner import OperationRunner
from gpuruntime.service.operation_upkeep import OperationUpkeep
from gpuruntime.service.operations import Operations
from tests.control.scenes import running
from tests.service.service_scenes import ServiceWorld, looking_at

QUICK = HoldTiming(lease=2.0, renew=1.5, period=0.3)


class Flaky:
    """A work that fails at first."""

    type: ClassVar = "flaky"

    def __init__(self) -> None:
        self.attempts: list[int] = []

    async def run(self, hold: OperationHold) -> Outcome:
        self.attempts.append(hold.attempt)
        if not hold.is_resumed:
            raise UnavailableError("the server is away")
        return Outcome(OperationResult("GPUUnit", "demo"))


async def test_what_a_process_gave_up_it_takes_up_again_when_its_hold_has_run_out(world: ServiceWorld) -> None:
    credentials = FencedCredentials(from_kubeconfig(world.access.kubeconfig))
    work = Flaky()
    runner = OperationRunner([work])
    async with Transport(credentials, user_agent="tests") as transport, running(Cache(transport)) as cache:
        records = cache.informer(Operation, namespaces=[world.active])
        operations = Operations(
            transport, records, runner, namespace=world.active, field_manager="t", identity="me", timing=QUICK
        )
        upkeep = OperationUpkeep(records.store, Client(transport, field_manager="t"), operations, runner)
        controller = Controller("upkeep", upkeep, [Watch(records, itself())])
        tasks = [asyncio.create_task(operations.run()), asyncio.create_task(controller.run())]
        await records.synced()
        try:
            with pytest.raises(UnavailableError, match="the server is away"):
                await operations.perform("order-1", work.type, world.seeds(1), within=30)
            async with looking_at(world.access, Operation, world.active) as seen:
                await seen.until(lambda store: [item.status.state for item in store.list().items] == [SUCCEEDED])
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    assert work.attempts == [1, 2]
