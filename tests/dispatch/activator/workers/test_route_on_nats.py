"""Connections of workers that are refused, malformed, or not the ones that they say they are."""

import pytest
from aiohttp import ClientSession, WSMsgType, WSServerHandshakeError
from attrs import evolve

from gpuruntime.dispatch.activator.workers.route import WORKER_PATH
from gpuruntime.dispatch.protocol import HeldLease, Hello, RunResult, encode_frame
from gpuruntime.meta import ObjectKey
from tests.dispatch.activator.dispatch_scenes import Dispatching, function_of
from tests.dispatch.activator.scripted_worker import Answer, ScriptedWorker, working


async def closing(url: str, token: str, *messages: bytes | str) -> tuple[int | None, str]:
    """Send WebSocket messages; returns the code with which the activator closes, and why."""
    headers = {"Authorization": f"Bearer {token}"}
    async with ClientSession() as session, session.ws_connect(f"{url}{WORKER_PATH}", headers=headers) as socket:
        for message in messages:
            await (socket.send_bytes(message) if isinstance(message, bytes) else socket.send_str(message))
        while True:
            found = await socket.receive()
            if found.type in {WSMsgType.CLOSE, WSMsgType.CLOSED, WSMsgType.CLOSING}:
                return socket.close_code, str(found.extra or "")


async def first_commit(worker: ScriptedWorker) -> None:
    await worker.until(lambda: bool(worker.committed))


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer unknown"}, {"Authorization": "Basic x"}])
async def test_a_connection_without_a_valid_token_is_refused(world: Dispatching, headers: dict[str, str]) -> None:
    async with world.activator() as here, ClientSession() as session:
        with pytest.raises(WSServerHandshakeError) as refused:
            await session.ws_connect(f"{here.url}{WORKER_PATH}", headers=headers)

    assert refused.value.status == 401


async def test_a_first_frame_that_is_not_hello_closes_the_connection(world: Dispatching) -> None:
    await world.serve()
    async with world.activator() as here:
        other = await closing(here.url, "w1", encode_frame(RunResult("", "", 1, "succeeded")))
        text = await closing(here.url, "w1", "hello")
        garbage = await closing(here.url, "w1", b"\x00\x00\x00\x02{}")
        version = await closing(here.url, "w1", encode_frame(Hello(1, version=2)))

    assert [code for code, _ in (other, text, garbage, version)] == [1002] * 4
    assert "expected hello" in other[1]
    assert "version 1" in version[1]


async def test_a_connection_without_a_hello_is_closed(world: Dispatching) -> None:
    world.settings = evolve(world.settings, hello=0.1)
    await world.serve()
    async with world.activator() as here:
        code, reason = await closing(here.url, "w1")

    assert (code, "within 0.1 s" in reason) == (1002, True)


async def test_a_malformed_frame_closes_that_connection_and_its_run_is_kept(world: Dispatching) -> None:
    queue = await world.serve()
    worker = ScriptedWorker("w1")
    async with world.activator() as here:
        async with working(here.url, worker):
            key = await queue.accept("one")
            await worker.until(lambda: bool(worker.taken))
            await worker.send_raw(b"\xff\xff\xff\xff")
            await worker.closed.wait()
        async with working(here.url, worker):
            await worker.answer(worker.taken[0], Answer(b"1"))
            ended = await queue.ended(key)

    assert worker.taken[1:] == []
    assert ended.body == b"1"


async def test_the_lease_of_another_worker_or_function_is_refused(world: Dispatching) -> None:
    queue = await world.serve()
    await world.serve(function_of(ObjectKey("ns", "other")), workers=("o1",))
    async with world.activator() as here, working(here.url, ScriptedWorker("w1")) as owner:
        key = await queue.accept("one")
        await owner.until(lambda: bool(owner.taken))
        frame = owner.taken[0].frame
        for token in ("w2", "o1"):
            thief = ScriptedWorker(token)
            thief.leases[frame.lease] = HeldLease(frame.lease, frame.id, 1)
            async with working(here.url, thief):
                assert thief.welcome is not None
                assert thief.welcome.lost_leases == (frame.lease,)
                await thief.answer(owner.taken[0], Answer(b"stolen"))
                await first_commit(thief)
            assert not thief.committed[0].won
        await owner.answer(owner.taken[0], Answer(b"own"))
        ended = await queue.ended(key)

    assert ended.body == b"own"
    assert here.figures.refused_leases == 4


async def test_a_lease_ends_its_own_invocation_only(world: Dispatching) -> None:
    queue = await world.serve()
    async with world.activator() as here, working(here.url, ScriptedWorker("w1", slots=1)) as worker:
        await queue.accept("one")
        other = await queue.accept("other")
        await worker.until(lambda: bool(worker.taken))
        await worker.send(RunResult(worker.taken[0].frame.lease, "other", 1, "succeeded"), b"forged")
        await worker.until(lambda: bool(worker.committed))
        found = await world.bus.jetstream.last_message("RESULTS", f"res.ns.echo.{other.id}")

    assert not worker.committed[0].won
    assert found is None


async def test_a_worker_that_connects_again_replaces_its_old_connection(world: Dispatching) -> None:
    await world.serve()
    async with (
        world.activator() as here,
        working(here.url, ScriptedWorker("w1", slots=3)) as old,
        working(here.url, ScriptedWorker("w1", slots=2)),
    ):
        await old.closed.wait()
        slots = dict(here.activator.slots)

    assert [(each.workers, each.slots) for each in slots.values()] == [(1, 2)]
