"""A sidecar beside a real framework of our SDK and a scripted activator: what reaches the function, what comes back."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from gpuruntime.dispatch.protocol import Release
from gpuruntime.framework import Context, Response
from gpuruntime.meta import FrozenDict
from tests.dispatch.sidecar.sidecar_scenes import sidecar_of


def seen(payload: Any, context: Context) -> Any:
    if isinstance(payload, bytes):
        return payload[::-1]
    return {
        "payload": payload,
        "id": context.id,
        "function": context.function,
        "attempt": context.attempt,
        "mode": context.mode,
        "headers": dict(context.headers),
        "attributes": dict(context.attributes),
        "hasDeadline": context.remaining_seconds < 100,
    }


async def test_a_run_reaches_the_function_with_all_that_the_caller_gave_and_its_result_comes_back(
    tmp_path: Path,
) -> None:
    async with sidecar_of(tmp_path, seen) as scene:
        activator = await scene.activator.ready_connection()

        run = await activator.run(
            payload=b'{"name": "you"}',
            attempt=2,
            mode="sync",
            timeout_millis=60_000,
            headers=FrozenDict({"X-A": "1"}),
            attributes=FrozenDict({"team": "red"}),
        )
        result, body = await activator.result()

        assert json.loads(body) == {
            "payload": {"name": "you"},
            "id": "inv-1",
            "function": "echo",
            "attempt": 2,
            "mode": "sync",
            "headers": {"X-A": "1"},
            "attributes": {"team": "red"},
            "hasDeadline": True,
        }
        assert (result.lease, result.id, result.attempt) == (run.lease, "inv-1", 2)
        assert (result.state, result.status_code, result.error) == ("succeeded", 200, "")
        assert result.content_type == "application/json"


@pytest.mark.parametrize(
    ("payload", "content_type", "returned"),
    [
        (bytes(range(256)), "application/octet-stream", bytes(range(255, -1, -1))),
        (b"abc", "text/plain", b"cba"),
        (b"\x00", "", None),
    ],
)
async def test_any_bytes_reach_the_function(
    payload: bytes, content_type: str, returned: bytes | None, tmp_path: Path
) -> None:
    async with sidecar_of(tmp_path, seen) as scene:
        activator = await scene.activator.ready_connection()

        await activator.run(payload=payload, content_type=content_type)
        result, body = await activator.result()

        if returned is None:
            # Without a content type it is JSON, and this is none.
            assert (result.state, result.failure_class) == ("failed", "framework_error")
            assert "expected application/json, got 1 bytes that are not" in result.error
        else:
            assert (result.state, body, result.content_type) == ("succeeded", returned, "application/octet-stream")


@pytest.mark.parametrize(
    ("returned", "state", "status", "error"),
    [
        (Response("<p>", 201, "text/html", {"X-A": "1"}), "succeeded", 201, ""),
        (Response({"no": "such"}, 404), "succeeded", 404, ""),
        (Response("broken", 503), "failed", 503, "the framework answered with the status 503"),
        (ValueError("no such model"), "failed", 500, "ValueError: no such model"),
    ],
)
async def test_the_status_of_the_function_decides_whether_it_failed(
    returned: Any, state: str, status: int, error: str, tmp_path: Path
) -> None:
    def answering(_payload: Any) -> Any:
        if isinstance(returned, Exception):
            raise returned
        return returned

    async with sidecar_of(tmp_path, answering) as scene:
        activator = await scene.activator.ready_connection()

        await activator.run()
        result, body = await activator.result()

        assert (result.state, result.status_code, result.error) == (state, status, error)
        assert result.failure_class == ("framework_error" if state == "failed" else "")
        if status == 201:
            assert (body, result.content_type, dict(result.headers)) == (b"<p>", "text/html", {"X-A": "1"})


@pytest.mark.parametrize("size", [1000, 1001])
async def test_a_result_larger_than_allowed_is_a_failure_of_its_own(size: int, tmp_path: Path) -> None:
    async with sidecar_of(tmp_path, lambda _payload: bytes(size)) as scene:
        activator = await scene.activator.ready_connection()

        await activator.run(max_result_bytes=1000)
        result, body = await activator.result()

        if size == 1000:
            assert (result.state, len(body)) == ("succeeded", 1000)
        else:
            assert (result.state, result.failure_class, body) == ("failed", "result_too_large", b"")
            assert "more than 1000 bytes" in result.error


async def test_a_result_that_fits_no_frame_is_a_failure_and_the_connection_stays(tmp_path: Path) -> None:
    async with sidecar_of(tmp_path, lambda _payload: bytes(10 * 2**20)) as scene:
        activator = await scene.activator.ready_connection()

        await activator.run()
        result, _ = await activator.result()

        assert result.failure_class == "result_too_large"
        assert not activator.closed.is_set()


async def test_never_more_runs_than_slots_and_one_too_many_goes_back(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def waiting(_payload: Any) -> None:
        await gate.wait()

    async with sidecar_of(tmp_path, waiting, slots=2) as scene:
        activator = await scene.activator.ready_connection(2)

        for number in range(3):
            await activator.run(f"inv-{number}")
        released, _ = await activator.receive(Release)
        gate.set()
        ended = {(await activator.result())[0].id for _ in range(2)}

        assert (released.id, released.lease) == ("inv-2", "lease-inv-2")
        assert ended == {"inv-0", "inv-1"}


async def test_a_heartbeat_has_the_leases_until_their_results_are_committed(tmp_path: Path) -> None:
    async with sidecar_of(tmp_path, lambda _payload: "done") as scene:
        activator = await scene.activator.ready_connection()

        await activator.heartbeat_where(())
        run = await activator.run()
        await activator.result()
        await activator.heartbeat_where(("lease-inv-1",))
        await activator.commit(run)
        await activator.heartbeat_where(())
