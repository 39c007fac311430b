"""Activators that die or stop, and NATS that goes and comes: nothing runs twice while its worker lives."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from attrs import evolve

from tests.dispatch.activator.dispatch_scenes import Dispatching, function_of
from tests.dispatch.activator.scripted_worker import Answer, ScriptedWorker, TakenRun, working
from tests.product_scenes import eventually


async def echo(run: TakenRun) -> Answer:
    return Answer(run.body)


def ids(*workers: ScriptedWorker) -> list[str]:
    """The IDs of all runs that came to these workers."""
    return sorted(run.frame.id for worker in workers for run in worker.taken)


async def test_the_runs_of_a_killed_activator_go_on_at_another_one(world: Dispatching) -> None:
    queue = await world.serve()
    worker = ScriptedWorker("w1", slots=8)
    async with world.activator("a") as first, world.activator("b") as second:
        async with working(first.url, worker):
            keys = [await queue.accept(str(number), b"%d" % number) for number in range(8)]
            await worker.until(lambda: len(worker.taken) == 8)
            await worker.answer(worker.taken[0], Answer(b"at the first"))
            await worker.until(lambda: bool(worker.committed))
            await first.kill()
            await worker.closed.wait()
        async with working(second.url, worker), working(second.url, ScriptedWorker("w2", slots=8)) as idle:
            # Longer than the lease: what is not extended would come again, to the idle worker.
            await asyncio.sleep(1.5 * world.settings.ack_wait)
            for run in worker.taken[1:]:
                await worker.answer(run, Answer(run.body))
            ended = [await queue.ended(key) for key in keys]
            await worker.until(lambda: len(worker.committed) == 8)

    assert {each.record.state for each in ended} == {"succeeded"}
    assert ids(worker, idle) == sorted(map(str, range(8)))
    assert all(each.won for each in worker.committed)


async def test_a_result_that_was_stored_before_its_activator_died_has_won_at_the_next_one(world: Dispatching) -> None:
    queue = await world.serve()
    worker = ScriptedWorker("w1")
    async with world.activator("a") as first, world.activator("b") as second:
        async with working(first.url, worker):
            key = await queue.accept("one", b"1")
            await worker.until(lambda: bool(worker.taken))
            await worker.answer(worker.taken[0], Answer(b"1"))
            await worker.until(lambda: bool(worker.committed))
            await queue.emptied()
        # As if Committed had been lost with the first activator.
        frame = worker.taken[0].frame
        worker.leases[frame.lease] = worker.held(worker.taken[0])
        async with working(second.url, worker):
            await worker.answer(worker.taken[0], Answer(b"1"))
            await worker.until(lambda: len(worker.committed) == 2)
        ended = await queue.ended(key)

    assert worker.committed[1].won
    assert ended.body == b"1"
    assert second.figures.executed_twice == 0


async def test_an_activator_that_stops_asks_its_workers_to_leave_and_commits_until_they_have(
    world: Dispatching,
) -> None:
    queue = await world.serve(function_of(max_attempts=1))
    worker = ScriptedWorker("w1", slots=2)
    async with world.activator("b") as second:
        async with AsyncExitStack() as stack:
            first = await stack.enter_async_context(world.activator("a"))
            await stack.enter_async_context(working(first.url, worker))
            done, kept = await queue.accept("done", b"1"), await queue.accept("kept", b"2")
            await worker.until(lambda: len(worker.taken) == 2)
            stopping = asyncio.create_task(first.stop())
            await worker.drained.wait()
            await worker.answer(next(run for run in worker.taken if run.frame.id == "done"), Answer(b"1"))
            await worker.until(lambda: bool(worker.committed))
            waiting = await queue.accept("waiting", b"3")
            await worker.disconnect()
            await stopping
        worker.function = echo
        async with working(second.url, worker):
            await worker.answer(next(run for run in worker.taken if run.frame.id == "kept"), Answer(b"2"))
            ended = [await queue.ended(key) for key in (done, kept, waiting)]

    assert [each.record.state for each in ended] == ["succeeded"] * 3
    assert [each.record.attempt for each in ended] == [1, 1, 1]
    assert ids(worker) == ["done", "kept", "waiting"]


async def test_nothing_is_lost_or_run_twice_when_nats_is_killed_for_a_second(world: Dispatching) -> None:
    queue = await world.serve()

    async def slow(run: TakenRun) -> Answer:
        await asyncio.sleep(0.05)
        return Answer(run.body)

    async with (
        world.activator("a") as first,
        world.activator("b") as second,
        working(first.url, ScriptedWorker("w1", slots=4, function=slow)) as one,
        working(second.url, ScriptedWorker("w2", slots=4, function=slow)) as two,
    ):
        keys = [await queue.accept(str(number), b"%d" % number) for number in range(60)]
        await one.until(lambda: bool(one.committed))
        await asyncio.to_thread(world.server.kill)
        await asyncio.sleep(1.0)
        await asyncio.to_thread(world.server.start)
        ended = [await queue.ended(key) for key in keys]
        await queue.emptied()

    assert {each.record.state for each in ended} == {"succeeded"}
    assert ids(one, two) == sorted(map(str, range(60)))


async def test_an_outage_longer_than_the_lease_runs_nothing_twice_though_slots_are_free(world: Dispatching) -> None:
    world.settings = evolve(world.settings, ack_wait=2.0)
    queue = await world.serve(workers=("w1", "w2", "w3"))
    async with (
        world.activator("a") as first,
        world.activator("b") as second,
        working(first.url, ScriptedWorker("w1", slots=8)) as busy,
    ):
        keys = [await queue.accept(str(number), b"%d" % number) for number in range(8)]
        await busy.until(lambda: len(busy.taken) == 8)
        async with (
            working(first.url, ScriptedWorker("w2", slots=8, function=echo)) as beside,
            working(second.url, ScriptedWorker("w3", slots=8, function=echo)) as elsewhere,
        ):
            await asyncio.to_thread(world.server.kill)
            await asyncio.sleep(3.0)
            await asyncio.to_thread(world.server.start)
            await asyncio.gather(*(each.bus.wait_connected() for each in (first, second)))
            # What was delivered before comes again to the free slots, and is left to its holder.
            await asyncio.sleep(world.settings.settle + world.settings.ack_wait + 1.0)
            for run in busy.taken:
                await busy.answer(run, Answer(run.body))
            ended = [await queue.ended(key) for key in keys]
            await queue.emptied()

    assert {each.record.state for each in ended} == {"succeeded"}
    assert ids(busy, beside, elsewhere) == sorted(map(str, range(8)))


@pytest.mark.parametrize("free", ["here", "elsewhere"])
async def test_a_redelivery_of_what_a_live_worker_has_is_left_to_it(world: Dispatching, free: str) -> None:
    queue = await world.serve()
    async with (
        world.activator("a") as first,
        world.activator("b") as second,
        working(first.url, ScriptedWorker("w1")) as busy,
    ):
        key = await queue.accept("one", b"1")
        await busy.until(lambda: bool(busy.taken))
        chosen = first if free == "here" else second
        async with working(chosen.url, ScriptedWorker("w2", function=echo)) as idle:
            # What the server does by itself when a lease runs out.
            await world.bus.nak(busy.taken[0].frame.lease.split("/")[2])
            await eventually(lambda: chosen.figures.redelivered == 1)
            other = await queue.accept("other", b"2")
            await queue.ended(other)
            await idle.until(lambda: len(idle.confirmed) > 2)
            await busy.answer(busy.taken[0], Answer(b"1"))
            ended = await queue.ended(key)

    assert ended.record.worker == "unit-w1"
    assert ids(idle) == ["other"]


async def test_a_result_waits_for_nats_and_is_committed_when_it_is_back(world: Dispatching) -> None:
    queue = await world.serve()
    async with world.activator() as here, working(here.url, ScriptedWorker("w1")) as worker:
        key = await queue.accept("one", b"1")
        await worker.until(lambda: bool(worker.taken))
        await asyncio.to_thread(world.server.kill)
        await here.bus.wait_disconnected()
        await worker.answer(worker.taken[0], Answer(b"kept"))
        await asyncio.sleep(0.5)
        before = len(worker.committed)
        await asyncio.to_thread(world.server.start)
        ended = await queue.ended(key)
        await worker.until(lambda: bool(worker.committed))

    assert before == 0
    assert ended.body == b"kept"
    assert len(worker.taken) == 1


async def test_activators_share_one_key(world: Dispatching) -> None:
    async with world.activator("a") as first, world.activator("b") as second:
        keys = {(await each.activator.key.known()).key for each in (first, second)}

    assert len(keys) == 1
