"""An activator between a real NATS server and workers that speak the real protocol."""

import asyncio

import pytest

from gpuruntime.api.invocations import (
    ResultRecord,
    cancel_subject,
    queue_subject,
    read_result,
    read_run,
    run_subject,
)
from gpuruntime.dispatch.protocol import RunResult
from gpuruntime.meta import ObjectKey
from tests.dispatch.activator.dispatch_scenes import Dispatching, function_of, identity_of, paused
from tests.dispatch.activator.scripted_worker import Answer, ScriptedWorker, TakenRun, working


async def echo(run: TakenRun) -> Answer:
    return Answer(run.body)


async def never(_run: TakenRun) -> None:
    """Send no result."""


async def test_an_invocation_runs_and_its_result_is_stored_and_removed_from_the_queue(world: Dispatching) -> None:
    queue = await world.serve()
    async with world.activator() as here, working(here.url, ScriptedWorker("w1", function=echo)) as worker:
        key = await queue.accept("one", b'{"a": 1}')
        ended = await queue.ended(key)
        await worker.until(lambda: bool(worker.committed))
        await queue.emptied()

    assert (ended.record.state, ended.body) == ("succeeded", b'{"a": 1}')
    assert (ended.record.attempt, ended.record.worker) == (1, "unit-w1")
    assert worker.committed[0].won
    assert here.figures.ended["succeeded", ""] == 1


async def test_it_is_recorded_who_runs_an_invocation(world: Dispatching) -> None:
    queue = await world.serve()
    async with world.activator() as here, working(here.url, ScriptedWorker("w1")):
        key = await queue.accept("one")
        while (run := await queue.bus.jetstream.last_message("RUN", run_subject(key))) is None:  # noqa: ASYNC110
            await asyncio.sleep(0.02)

    record = read_run(run.headers)
    assert (record.attempt, record.worker, record.pod_uid) == (1, "unit-w1", "uid-w1")


@pytest.mark.parametrize("size", [0, 100, 126, 20_000, 70_000, 1_000_000])
async def test_many_payloads_of_any_size_come_in_order(world: Dispatching, size: int) -> None:
    queue = await world.serve()
    keys = [await queue.accept(str(number), bytes([number]) * size) for number in range(6)]
    async with world.activator() as here, working(here.url, ScriptedWorker("w1", slots=6, function=echo)) as worker:
        ended = [await queue.ended(key) for key in keys]

    assert [run.body for run in worker.taken] == [bytes([number]) * size for number in range(6)]
    assert [each.body for each in ended] == [bytes([number]) * size for number in range(6)]


async def test_any_bytes_and_headers_reach_the_worker(world: Dispatching) -> None:
    queue = await world.serve()
    async with world.activator() as here, working(here.url, ScriptedWorker("w1", function=echo)) as worker:
        key = await queue.accept("a.b:c", b"\x00\xff" * 1000, content_type="x/y", headers={"k": "v"}, timeout_millis=7)
        ended = await queue.ended(key)

    (taken,) = worker.taken
    assert taken.body == ended.body == b"\x00\xff" * 1000
    assert (taken.frame.id, taken.frame.content_type, dict(taken.frame.headers)) == ("a.b:c", "x/y", {"k": "v"})
    assert (taken.frame.timeout_millis, taken.frame.max_result_bytes) == (7, 2**20)


async def test_the_caller_who_waits_gets_a_copy_of_the_result(world: Dispatching) -> None:
    queue = await world.serve()
    async with world.activator() as here, working(here.url, ScriptedWorker("w1", function=echo)):
        inbox = "_INBOX.runtime-api.x.1"
        async with world.bus.subscribe(inbox) as replies:
            await world.bus.settled(10)
            await queue.accept("one", b"42", mode="sync", reply=inbox)
            reply = await anext(replies)

    assert reply.body == b"42"
    assert read_result(reply.headers).mode == "sync"


async def test_no_more_runs_at_a_time_than_there_are_slots_and_the_rest_waits_in_the_queue(world: Dispatching) -> None:
    queue = await world.serve()
    async with (
        world.activator() as here,
        working(here.url, ScriptedWorker("w1", slots=2, function=never)) as one,
        working(here.url, ScriptedWorker("w2", slots=2, function=never)) as two,
    ):
        for number in range(6):
            await queue.accept(str(number))
        await one.until(lambda: len(one.taken) == 2)
        await two.until(lambda: len(two.taken) == 2)
        info = await queue.bus.jetstream.consumer_info("FN_ns_echo", "workers")
        await one.answer(one.taken[0], Answer())
        await one.until(lambda: len(one.taken) == 3)

    assert info is not None
    assert (info.num_ack_pending, info.num_pending) == (4, 2)
    assert len(two.taken) == 2


async def test_a_function_without_workers_does_not_hold_up_another(world: Dispatching) -> None:
    stuck = await world.serve(function_of(ObjectKey("ns", "stuck")), workers=("s1",))
    queue = await world.serve()
    for number in range(100):
        await stuck.accept(str(number))
    async with (
        world.activator() as here,
        working(here.url, ScriptedWorker("s1", function=never)) as busy,
        working(here.url, ScriptedWorker("w1", function=echo)),
    ):
        await busy.until(lambda: len(busy.taken) == 1)
        keys = [await queue.accept(str(number)) for number in range(50)]
        ended = [await queue.ended(key) for key in keys]

    assert {each.record.state for each in ended} == {"succeeded"}
    assert len(busy.taken) == 1


async def test_a_result_that_is_sent_twice_counts_once(world: Dispatching) -> None:
    queue = await world.serve()
    async with world.activator() as here, working(here.url, ScriptedWorker("w1")) as worker:
        key = await queue.accept("one")
        await worker.until(lambda: bool(worker.taken))
        await worker.answer(worker.taken[0], Answer(b"1"))
        await worker.until(lambda: len(worker.committed) == 1)
        await worker.answer(worker.taken[0], Answer(b"1"))
        await worker.until(lambda: len(worker.committed) == 2)
        ended = await queue.ended(key)

    assert [each.won for each in worker.committed] == [True, True]
    assert ended.body == b"1"
    assert here.figures.executed_twice == 0


async def test_a_cancelled_run_is_stopped_and_its_own_result_is_dropped(world: Dispatching) -> None:
    queue = await world.serve()
    async with world.activator() as here, working(here.url, ScriptedWorker("w1")) as worker:
        key = await queue.accept("one")
        await worker.until(lambda: bool(worker.taken))
        await queue.end(key, ResultRecord("cancelled", failure_class="cancelled_by_caller", result_ttl_millis=60_000))
        await world.bus.publish(cancel_subject(key))
        await worker.until(lambda: bool(worker.cancelled))
        await worker.answer(worker.taken[0], Answer(b"late"))
        await worker.until(lambda: bool(worker.committed))
        ended = await queue.ended(key)
        await queue.emptied()

    assert worker.cancelled[0].id == "one"
    assert not worker.committed[0].won
    assert (ended.record.state, ended.body) == ("cancelled", b"")
    assert here.figures.executed_twice == 0


async def test_a_cancellation_that_was_not_heard_is_found_by_the_check_of_leases(world: Dispatching) -> None:
    queue = await world.serve()
    async with world.activator() as here, working(here.url, ScriptedWorker("w1")) as worker:
        key = await queue.accept("one")
        await worker.until(lambda: bool(worker.taken))
        await queue.end(key, ResultRecord("cancelled", result_ttl_millis=60_000))
        await worker.until(lambda: bool(worker.cancelled))

    assert worker.cancelled[0].lease == worker.taken[0].frame.lease


async def test_the_request_of_a_failed_invocation_is_kept(world: Dispatching) -> None:
    async def fail(_run: TakenRun) -> Answer:
        return Answer(b"", "failed", "framework_error", "it broke")

    queue = await world.serve()
    async with world.activator() as here, working(here.url, ScriptedWorker("w1", function=fail)):
        key = await queue.accept("one", b"the request")
        ended = await queue.ended(key)
        letter = await queue.letter(key)

    assert (ended.record.state, ended.record.failure_class, ended.record.error) == (
        "failed",
        "framework_error",
        "it broke",
    )
    assert letter is not None
    assert letter.body == b"the request"
    assert "Nats-TTL" in letter.headers


async def test_a_result_that_is_too_large_is_a_failure(world: Dispatching) -> None:
    async def much(_run: TakenRun) -> Answer:
        return Answer(bytes(1025))

    queue = await world.serve(function_of(max_result_bytes="1Ki"))
    async with world.activator() as here, working(here.url, ScriptedWorker("w1", function=much)):
        ended = await queue.ended(await queue.accept("one"))

    assert (ended.record.state, ended.record.failure_class, ended.body) == ("failed", "result_too_large", b"")


async def test_a_message_that_cannot_be_read_is_dead_lettered_and_others_run(world: Dispatching) -> None:
    queue = await world.serve()
    bad = queue.key("bad")
    await world.bus.jetstream.publish(queue_subject(bad), b"?", {"Gpuruntime-Metadata": "{"})
    async with world.activator() as here, working(here.url, ScriptedWorker("w1", function=echo)) as worker:
        good = await queue.accept("good")
        ended = await queue.ended(bad)
        await queue.ended(good)
        letter = await queue.letter(bad)
        await queue.emptied()

    assert (ended.record.state, ended.record.failure_class) == ("dead_lettered", "malformed_message")
    assert [run.frame.id for run in worker.taken] == ["good"]
    assert letter is not None
    assert letter.body == b"?"


async def test_an_invocation_that_waited_too_long_is_not_started(world: Dispatching) -> None:
    queue = await world.serve()
    late = await queue.accept("late", queue_ttl_millis=1)
    key = await queue.accept("in-time")
    async with world.activator() as here, working(here.url, ScriptedWorker("w1", function=echo)) as worker:
        ended = await queue.ended(late)
        await queue.ended(key)

    assert (ended.record.state, ended.record.failure_class) == ("expired", "queue_timeout")
    assert [run.frame.id for run in worker.taken] == ["in-time"]


async def test_a_paused_function_starts_nothing_until_it_goes_on(world: Dispatching) -> None:
    function = function_of()
    queue = await world.serve(paused(function))
    async with world.activator() as here, working(here.url, ScriptedWorker("w1", function=echo)) as worker:
        key = await queue.accept("one")
        await worker.until(lambda: len(worker.confirmed) > 2)
        before = len(worker.taken)
        world.change(function)
        await queue.ended(key)
        world.change(paused(function))
        await queue.accept("two")
        await worker.until(lambda: len(worker.confirmed) > 5)

    assert before == 0
    assert [run.frame.id for run in worker.taken] == ["one"]


async def test_a_worker_of_an_unknown_function_waits_until_it_is_known(world: Dispatching) -> None:
    function = function_of()
    queue = await world.serve(function)
    world.functions.known.clear()
    key = await queue.accept("one")
    async with world.activator() as here, working(here.url, ScriptedWorker("w1", function=echo)) as worker:
        await worker.until(lambda: len(worker.confirmed) > 1)
        before = len(worker.taken)
        world.change(function)
        await queue.ended(key)

    assert before == 0


async def test_a_queue_that_is_made_later_is_found(world: Dispatching) -> None:
    function = function_of()
    world.functions.put(function)
    world.workers["w1"] = identity_of("w1")
    async with world.activator() as here, working(here.url, ScriptedWorker("w1", function=echo)) as worker:
        await worker.until(lambda: bool(worker.confirmed))
        queue = await world.serve(function)
        ended = await queue.ended(await queue.accept("one"))

    assert ended.record.state == "succeeded"


@pytest.mark.parametrize("state", ["queued", "dead_lettered", "?"])
async def test_a_worker_cannot_decide_other_states_than_its_own(world: Dispatching, state: str) -> None:
    queue = await world.serve()
    async with world.activator() as here, working(here.url, ScriptedWorker("w1")) as worker:
        key = await queue.accept("one")
        await worker.until(lambda: bool(worker.taken))
        frame = worker.taken[0].frame
        await worker.send(RunResult(frame.lease, frame.id, 1, state))
        ended = await queue.ended(key)

    assert (ended.record.state, ended.record.failure_class) == ("failed", "framework_error")
