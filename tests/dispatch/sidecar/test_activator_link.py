"""Connections to activators that come, go, refuse and talk nonsense."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gpuruntime.dispatch.protocol import Committed, Drain, HeldLease, Welcome, encode_frame
from tests.dispatch.sidecar.scripted_activator import scripted_activator, until
from tests.dispatch.sidecar.sidecar_scenes import sidecar, sidecar_of
from tests.framework.framework_scenes import served


class Counted:
    """A function that counts its calls, and waits at a gate."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.started = asyncio.Event()
        self.gate = asyncio.Event()

    async def __call__(self, payload: Any) -> Any:
        self.calls.append(payload)
        self.started.set()
        await self.gate.wait()
        return payload


@pytest.mark.parametrize("how", ["closed", "cut", "drain"])
async def test_a_run_goes_on_without_its_connection_and_its_result_goes_to_the_next_activator(
    how: str, tmp_path: Path
) -> None:
    function = Counted()
    async with sidecar_of(tmp_path, function) as scene:
        first = await scene.activator.ready_connection()
        run = await first.run("inv-1", b'"one"', attempt=2)
        await function.started.wait()

        if how == "closed":
            await first.close()
        elif how == "cut":
            first.cut()
        else:
            await first.send(Drain())
        second = await scene.activator.connection()
        function.gate.set()
        result, body = await second.result()

        assert second.hello.leases == (HeldLease(run.lease, "inv-1", 2),)
        assert second.hello.slots == 1
        assert (result.state, body) == ("succeeded", b"one")
        assert function.calls == ["one"]


async def test_a_result_is_sent_again_after_each_reconnect_until_it_is_committed(tmp_path: Path) -> None:
    calls: list[Any] = []
    async with sidecar_of(tmp_path, calls.append) as scene:
        activator = await scene.activator.ready_connection()
        run = await activator.run("inv-1", b"1")
        results = [await activator.result()]

        for _ in range(2):
            activator.cut()
            activator = await scene.activator.connection()
            results.append(await activator.result())
        await activator.commit(run)
        await activator.heartbeat_where(())
        activator.cut()
        last = await scene.activator.connection()

        assert results[0] == results[1] == results[2]
        assert last.hello.leases == ()
        assert calls == [1]


async def test_a_result_that_lost_is_forgotten_too(tmp_path: Path) -> None:
    async with sidecar_of(tmp_path, lambda _payload: None) as scene:
        activator = await scene.activator.ready_connection()

        run = await activator.run()
        await activator.result()
        await activator.send(Committed(run.lease, run.id, won=False))

        await activator.heartbeat_where(())


@pytest.mark.parametrize("has_ended", [False, True])
async def test_a_second_delivery_of_an_invocation_that_is_here_is_not_executed(has_ended: bool, tmp_path: Path) -> None:
    function = Counted()
    async with sidecar_of(tmp_path, function, slots=2) as scene:
        activator = await scene.activator.ready_connection(2)

        await activator.run("inv-1", b"1", lease="lease-a", attempt=1)
        await function.started.wait()
        if has_ended:
            function.gate.set()
            await activator.result()
        await activator.run("inv-1", b"1", lease="lease-b", attempt=2)
        function.gate.set()
        result, _ = await activator.result()
        await activator.confirm(lost=("lease-a",))
        await activator.heartbeat_where(("lease-b",))

        assert (result.lease, result.attempt) == ("lease-b", 2)
        assert function.calls == [1]


@pytest.mark.parametrize("status", [401, 403, 500])
async def test_after_a_refusal_it_connects_again_with_the_token_of_then(
    status: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with scripted_activator() as activator, served(tmp_path / "f.sock", lambda _payload: None):
        activator.refusals["Bearer old"] = status
        (tmp_path / "token").write_text("old")
        async with sidecar(tmp_path, activator):
            await until(lambda: activator.refused)
            (tmp_path / "token").write_text("new\n")
            connection = await activator.ready_connection()

    assert connection.token == "Bearer new"
    [line] = {record.message for record in caplog.records if getattr(record, "status", 0) == status}
    assert ("check the token, its audience" in line) == (status in {401, 403})


async def test_without_a_token_it_waits_for_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with served(tmp_path / "f.sock", lambda _payload: None):
        (tmp_path / "token").write_text("\n")
        async with sidecar(tmp_path) as scene:
            await until(lambda: "the connection to the activator failed" in caplog.messages)
            (tmp_path / "token").write_text("late")
            connection = await scene.activator.connection()

            assert connection.token == "Bearer late"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00\x00\x00\x02{}",
        b"\x00\x00\x00\x12" + b'{"type": "future"}',
        b"\x00\x00\x00\x0e" + b'{"type":"run"}',
        "text",
        encode_frame(Welcome("again", 100)),
    ],
)
async def test_what_is_no_frame_closes_the_connection_and_runs_go_on(data: bytes | str, tmp_path: Path) -> None:
    function = Counted()
    async with sidecar_of(tmp_path, function) as scene:
        activator = await scene.activator.ready_connection()
        await activator.run("inv-1", b"1")
        await function.started.wait()

        await activator.send_raw(data)
        await activator.until_closed()
        again = await scene.activator.connection()
        function.gate.set()
        result, _ = await again.result()

        assert activator.close_code == 1002
        assert result.state == "succeeded"
        assert function.calls == [1]


async def test_frames_about_leases_that_are_not_here_and_fields_of_later_versions_change_nothing(
    tmp_path: Path,
) -> None:
    async with sidecar_of(tmp_path, lambda payload: payload) as scene:
        activator = await scene.activator.ready_connection()

        header = b'{"type":"cancel","lease":"none","id":"none","because":{"new":1}}'
        await activator.send_raw(len(header).to_bytes(4, "big") + header)
        await activator.send(Committed("none", "none"))
        await activator.confirm("none", lost=("none",))
        await activator.run("inv-1", b"1")
        result, _ = await activator.result()

        assert result.state == "succeeded"


async def test_a_sidecar_outlives_all_activators(tmp_path: Path) -> None:
    function = Counted()
    async with served(tmp_path / "f.sock", function):
        async with scripted_activator() as first:
            port = int(first.url.rpartition(":")[2])
            scene_of = sidecar(tmp_path, first)
            scene = await scene_of.__aenter__()
            activator = await first.ready_connection()
            await activator.run("inv-1", b"1")
            await function.started.wait()
        function.gate.set()
        await scene.ask_until(200, "/readyz")
        async with scripted_activator(port=port) as second:
            connection = await second.connection()
            result, _ = await connection.result()
            await scene_of.__aexit__(None, None, None)

    assert (result.id, result.state) == ("inv-1", "succeeded")
    assert function.calls == [1]
