"""A real sidecar and framework at a real activator, on a real NATS server."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gpuruntime.testing.nats import NatsServer
from tests.dispatch.activator.dispatch_scenes import Dispatching
from tests.dispatch.sidecar.sidecar_scenes import sidecar
from tests.framework.framework_scenes import served


@pytest.fixture
async def world(nats_server: NatsServer) -> AsyncIterator[Dispatching]:
    async with Dispatching.on(nats_server) as world:
        yield world


def worker_options(url: str, tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "token").write_text("w1")
    return {"activator_url": f"{url.replace('http', 'ws', 1)}/v1/worker", "slots": 4}


async def test_every_accepted_invocation_runs_once_and_has_its_result(world: Dispatching, tmp_path: Path) -> None:
    calls: Counter[int] = Counter()

    async def double(payload: int) -> int:
        calls[payload] += 1
        await asyncio.sleep(0)
        return 2 * payload

    queue = await world.serve()
    early = [await queue.accept(str(number), b"%d" % number) for number in range(10)]
    async with (
        world.activator() as activator,
        sidecar(tmp_path, **worker_options(activator.url, tmp_path)),
        served(tmp_path / "f.sock", double, concurrency=4),
    ):
        late = [await queue.accept(str(number), b"%d" % number) for number in range(10, 30)]
        ended = [await queue.ended(key) for key in (*early, *late)]
        await queue.emptied()

    assert [each.body for each in ended] == [b"%d" % (2 * number) for number in range(30)]
    assert {each.record.state for each in ended} == {"succeeded"}
    assert calls == Counter(range(30))


async def test_an_invocation_waits_for_a_framework_that_is_away_and_one_that_is_started_is_not_repeated(
    world: Dispatching, tmp_path: Path
) -> None:
    started, calls = asyncio.Event(), []

    async def endless(payload: int) -> None:
        calls.append(payload)
        started.set()
        await asyncio.Event().wait()

    queue = await world.serve()
    async with world.activator() as activator, sidecar(tmp_path, **worker_options(activator.url, tmp_path)):
        async with served(tmp_path / "f.sock", endless, concurrency=4) as framework:
            running = await queue.accept("running", b"1")
            await started.wait()
            async with framework.connected() as client:
                # Ended by the framework, and not by a caller: it is a failure.
                assert (await client.ask(b"POST /cancel/running HTTP/1.1\r\n\r\n"))[0] == 200
            failed = await queue.ended(running)
        waiting = await queue.accept("waiting", b"2")
        async with served(tmp_path / "f.sock", lambda payload: payload, concurrency=4):
            succeeded = await queue.ended(waiting)

    assert (failed.record.state, failed.record.failure_class) == ("failed", "framework_error")
    assert (succeeded.record.state, succeeded.body) == ("succeeded", b"2")
    assert calls == [1]
