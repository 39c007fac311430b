"""Workers that are lost, that give back, and that come back."""

import asyncio

import pytest
from attrs import evolve

from tests.dispatch.activator.dispatch_scenes import Dispatching, function_of, identity_of
from tests.dispatch.activator.scripted_worker import Answer, ScriptedWorker, TakenRun, working
from tests.product_scenes import eventually


async def echo(run: TakenRun) -> Answer:
    return Answer(run.body)


async def test_the_run_of_a_lost_worker_is_given_to_another_as_the_next_attempt(world: Dispatching) -> None:
    queue = await world.serve()
    async with world.activator() as here:
        async with working(here.url, ScriptedWorker("w1")) as lost:
            key = await queue.accept("one", b"1")
            await lost.until(lambda: bool(lost.taken))
        async with working(here.url, ScriptedWorker("w2", function=echo)) as other:
            ended = await queue.ended(key)

    assert (ended.record.attempt, ended.record.worker) == (2, "unit-w2")
    assert other.taken[0].frame.attempt == 2
    assert here.figures.redelivered == 1


async def test_a_function_of_one_attempt_fails_when_its_worker_is_lost(world: Dispatching) -> None:
    queue = await world.serve(function_of(max_attempts=1))
    async with world.activator() as here:
        async with working(here.url, ScriptedWorker("w1")) as lost:
            key = await queue.accept("one", b"1")
            await lost.until(lambda: bool(lost.taken))
        async with working(here.url, ScriptedWorker("w2", function=echo)) as other:
            ended = await queue.ended(key)
            letter = await queue.letter(key)
            await queue.emptied()

    assert (ended.record.state, ended.record.failure_class) == ("failed", "worker_lost")
    assert other.taken == []
    assert letter is not None


async def test_attempts_are_bounded_and_then_the_invocation_is_dead_lettered(world: Dispatching) -> None:
    queue = await world.serve(function_of(max_attempts=2))
    async with world.activator() as here:
        async with working(here.url, ScriptedWorker("w1")) as first:
            key = await queue.accept("one", b"1")
            await first.until(lambda: bool(first.taken))
        async with working(here.url, ScriptedWorker("w2")) as second:
            await second.until(lambda: bool(second.taken))
        async with working(here.url, ScriptedWorker("w1", function=echo)) as last:
            ended = await queue.ended(key)
            letter = await queue.letter(key)

    assert (ended.record.state, ended.record.failure_class) == ("dead_lettered", "retry_exhausted")
    assert ended.record.attempt == 2
    assert last.taken == []
    assert letter is not None
    assert letter.body == b"1"


@pytest.mark.parametrize("seen_first", ["the end of the pod", "the end of the connection"])
async def test_the_run_of_a_pod_that_ended_goes_back_at_once(world: Dispatching, seen_first: str) -> None:
    world.settings = evolve(world.settings, ack_wait=3600.0)
    queue = await world.serve()
    async with world.activator() as here:
        async with working(here.url, ScriptedWorker("w1")) as lost:
            key = await queue.accept("one", b"1")
            await lost.until(lambda: bool(lost.taken))
            if seen_first == "the end of the pod":
                world.pods.end(identity_of("w1"))
        if seen_first == "the end of the connection":
            await eventually(lambda: not here.activator.slots)
            world.pods.end(identity_of("w1"))
        async with working(here.url, ScriptedWorker("w2", function=echo)):
            ended = await queue.ended(key)

    assert (ended.record.worker, ended.record.attempt) == ("unit-w2", 2)


async def test_a_run_that_a_worker_gives_back_counts_as_no_attempt(world: Dispatching) -> None:
    queue = await world.serve(function_of(max_attempts=1))
    async with world.activator() as here, working(here.url, ScriptedWorker("w1")) as worker:
        key = await queue.accept("one", b"1")
        await worker.until(lambda: bool(worker.taken))
        await worker.release(worker.taken[0])
        async with working(here.url, ScriptedWorker("w2", function=echo)) as other:
            worker.function = echo
            ended = await queue.ended(key)

    assert (ended.record.state, ended.record.attempt) == ("succeeded", 1)
    assert len(worker.taken) + len(other.taken) == 2
    assert here.figures.given_back >= 1


async def test_a_worker_that_reconnects_keeps_its_run_and_its_result_counts(world: Dispatching) -> None:
    queue = await world.serve(function_of(max_attempts=1))
    worker = ScriptedWorker("w1")
    async with world.activator() as here:
        async with working(here.url, worker):
            key = await queue.accept("one", b"1")
            await worker.until(lambda: bool(worker.taken))
        async with working(here.url, worker):
            await worker.until(lambda: len(worker.confirmed) > 2)
            await worker.answer(worker.taken[0], Answer(b"done"))
            ended = await queue.ended(key)
            await worker.until(lambda: bool(worker.committed))
            await queue.emptied()

    assert (ended.record.state, ended.body) == ("succeeded", b"done")
    assert ended.record.request_hash
    assert worker.committed[0].won
    assert len(worker.taken) == 1


async def test_the_result_of_a_run_that_was_taken_over_is_dropped_and_counted(world: Dispatching) -> None:
    queue = await world.serve()
    cut_off = ScriptedWorker("w1")
    async with world.activator() as here:
        async with working(here.url, cut_off):
            key = await queue.accept("one", b"1")
            await cut_off.until(lambda: bool(cut_off.taken))
        async with working(here.url, ScriptedWorker("w2", function=echo)):
            await queue.ended(key)
        async with working(here.url, cut_off):
            await cut_off.answer(cut_off.taken[0], Answer(b"other"))
            await cut_off.until(lambda: bool(cut_off.committed))
        ended = await queue.ended(key)

    assert not cut_off.committed[0].won
    assert ended.body == b"1"
    assert here.figures.executed_twice == 1


async def test_a_result_that_comes_after_the_stored_one_has_expired_is_refused(world: Dispatching) -> None:
    queue = await world.serve(function_of(result_ttl_seconds=1))
    cut_off = ScriptedWorker("w1")
    async with world.activator() as here:
        async with working(here.url, cut_off):
            await queue.accept("one", b"1")
            await cut_off.until(lambda: bool(cut_off.taken))
        async with working(here.url, ScriptedWorker("w2", function=echo)):
            await queue.emptied()
        while await world.bus.jetstream.last_message("RESULTS", "res.ns.echo.one") is not None:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        async with working(here.url, cut_off):
            await cut_off.answer(cut_off.taken[0], Answer(b"late"))
            await cut_off.until(lambda: bool(cut_off.committed))

    assert not cut_off.committed[0].won
    assert await world.bus.jetstream.last_message("RESULTS", "res.ns.echo.one") is None


async def test_a_silent_worker_loses_its_connection_and_its_run(world: Dispatching) -> None:
    queue = await world.serve()
    async with world.activator() as here, working(here.url, ScriptedWorker("w1", heartbeats=False)) as silent:
        key = await queue.accept("one", b"1")
        await silent.until(lambda: bool(silent.taken))
        await silent.closed.wait()
        async with working(here.url, ScriptedWorker("w2", function=echo)):
            ended = await queue.ended(key)

    assert ended.record.worker == "unit-w2"
