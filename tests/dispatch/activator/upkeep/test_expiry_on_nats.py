import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gpuruntime.dispatch.activator.figures import DispatchFigures
from gpuruntime.dispatch.activator.upkeep.expiry import Expiry, ExpirySettings
from tests.dispatch.activator.dispatch_scenes import Dispatching, ServedActivator, function_of
from tests.dispatch.activator.scripted_worker import Answer, ScriptedWorker, working
from tests.product_scenes import eventually

OFTEN = ExpirySettings(busy=0.2, idle=0.5, wake=0.05, delivered=0.3)


@asynccontextmanager
async def expiring(world: Dispatching, here: ServedActivator) -> AsyncIterator[DispatchFigures]:
    """The leader's expiry, beside an activator."""
    activator, figures = here.activator, DispatchFigures()
    expiry = Expiry(
        here.bus, world.functions, activator.commits, activator.redeliveries, activator.clock, figures, OFTEN
    )
    task = asyncio.create_task(expiry.run())
    try:
        yield figures
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_what_waits_longer_than_the_function_says_expires_and_its_request_is_kept(world: Dispatching) -> None:
    queue = await world.serve(function_of(queue_ttl_seconds=1))
    async with world.activator() as here, expiring(world, here):
        keys = [await queue.accept(str(number), b"%d" % number) for number in range(3)]
        ended = [await queue.ended(key) for key in keys]
        await queue.emptied()
        letter = await queue.letter(keys[2])

    assert {(each.record.state, each.record.failure_class) for each in ended} == {("expired", "queue_timeout")}
    assert all(each.record.delay_millis >= 1000 for each in ended)
    assert letter is not None
    assert letter.body == b"2"


async def test_a_message_with_a_deadline_of_its_own_expires_behind_others(world: Dispatching) -> None:
    queue = await world.serve()
    async with world.activator() as here, expiring(world, here) as figures:
        await queue.accept("first")
        key = await queue.accept("short", queue_ttl_millis=300)
        await queue.accept("last")
        ended = await queue.ended(key)
        await eventually(lambda: any(depth.queued == 2 for depth in figures.queues.values()))
        length = await queue.length()

    assert ended.record.state == "expired"
    assert length == 2


async def test_what_runs_does_not_expire(world: Dispatching) -> None:
    queue = await world.serve(function_of(queue_ttl_seconds=1))
    async with (
        world.activator() as here,
        working(here.url, ScriptedWorker("w1")) as worker,
        expiring(world, here),
    ):
        key = await queue.accept("runs", b"1")
        await worker.until(lambda: bool(worker.taken))
        late = await queue.accept("waits")
        await queue.ended(late)
        await worker.until(lambda: len(worker.confirmed) > 3)
        await worker.answer(worker.taken[0], Answer(b"1"))
        ended = await queue.ended(key)

    assert ended.record.state == "succeeded"


async def test_a_lost_run_that_no_worker_takes_expires_in_the_end(world: Dispatching) -> None:
    queue = await world.serve(function_of(queue_ttl_seconds=1))
    async with world.activator() as here:
        async with working(here.url, ScriptedWorker("w1")) as worker:
            key = await queue.accept("lost", b"1")
            await worker.until(lambda: bool(worker.taken))
        async with expiring(world, here):
            ended = await queue.ended(key)
            await queue.emptied()

    assert ended.record.state == "expired"
