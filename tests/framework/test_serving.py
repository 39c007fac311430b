"""Serving: setup before health, options of the environment, the socket, and the drain."""

import asyncio
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from gpuruntime.framework import Context, FunctionError, SocketFileError
from gpuruntime.framework.serving import ServeOptions, serve_until
from gpuruntime.framework.socket_file import SocketFile
from gpuruntime.framework.user_function import UserFunction
from tests.framework.framework_scenes import envelope, post, served

HEALTH = b"GET /healthz HTTP/1.1\r\n\r\n"


@pytest.mark.parametrize("is_async", [False, True])
async def test_health_is_not_ok_until_setup_returned_and_the_function_gets_its_result(
    is_async: bool, tmp_path: Path
) -> None:
    gate, threads = threading.Event(), list[int]()

    def load() -> str:
        gate.wait(30)
        threads.append(threading.get_ident())
        return "the model"

    async def load_async() -> str:
        await asyncio.to_thread(gate.wait, 30)
        return "the model"

    def function(_payload: Any, context: Context) -> Any:
        threads.append(threading.get_ident())
        return context.state

    setup = load_async if is_async else load
    async with served(tmp_path / "f.sock", function, setup=setup) as worker, worker.connected() as client:
        before = await client.ask(HEALTH)
        client.send(post("/invoke", envelope()))
        refused = await client.receive()
        gate.set()
        await client.ask_until(200, HEALTH)
        answer = await client.invoke()

    assert before == (503, {"ok": False, "running": 0, "reason": "setup is running"})
    assert (refused.status, refused.headers["serverless-not-started"]) == (503, "true")
    assert answer["body"] == "the model"
    assert len(set(threads)) == 1


async def test_a_setup_that_raises_ends_the_process_with_its_error(tmp_path: Path) -> None:
    def load() -> None:
        raise OSError("no such weights")

    options = ServeOptions(socket_path=tmp_path / "f.sock")

    with pytest.raises(OSError, match="no such weights"):
        await serve_until(asyncio.Event(), UserFunction.of(lambda _payload: None), load, options)
    assert not options.socket_path.exists()


async def test_a_drain_waits_for_what_runs_refuses_the_rest_and_sends_large_results_to_the_end(tmp_path: Path) -> None:
    started, gate = threading.Event(), threading.Event()

    def slow(_payload: Any) -> bytes:
        started.set()
        gate.wait(30)
        return b"x" * 5_000_000

    async with (
        served(tmp_path / "f.sock", slow) as function,
        function.connected() as one,
        function.connected() as two,
    ):
        one.send(post("/invoke", envelope("inv-1")))
        await asyncio.to_thread(started.wait)
        function.stopping.set()
        health = await two.ask_until(503, HEALTH)
        two.send(post("/invoke", envelope("inv-2")))
        refused = await two.receive()
        gate.set()
        message = await one.receive()
        await function.task

    assert health == {"ok": False, "running": 1, "reason": "the framework is shutting down"}
    assert (refused.status, refused.headers["serverless-not-started"]) == (503, "true")
    assert len(message.body) > 5_000_000 * 4 / 3
    assert not function.path.exists()


async def test_a_stop_during_setup_does_not_wait_for_it(tmp_path: Path) -> None:
    gate = threading.Event()
    async with served(tmp_path / "f.sock", lambda _payload: None, setup=lambda: gate.wait(60)) as function:
        function.stopping.set()
        await function.task

        assert not gate.is_set()
    gate.set()


def test_the_socket_has_a_directory_mode_0660_and_goes_when_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "f.sock"

    file = SocketFile(path)
    mode = stat.S_IMODE(path.stat().st_mode)
    file.close()

    assert mode == 0o660
    assert not path.exists()


def test_a_stale_socket_is_replaced_and_one_in_use_is_not(tmp_path: Path) -> None:
    path = tmp_path / "f.sock"
    dead = SocketFile(path)
    dead.socket.close()

    alive = SocketFile(path)
    with pytest.raises(SocketFileError, match="another process serves this socket"):
        SocketFile(path)
    dead.close()

    assert path.exists()
    alive.close()


def test_another_file_is_not_replaced_and_a_long_path_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f.sock").write_text("data")

    with pytest.raises(SocketFileError, match="got another file"):
        SocketFile(tmp_path / "f.sock")
    with pytest.raises(SocketFileError, match="at most 107 bytes"):
        SocketFile(tmp_path / ("x" * 120))
    with pytest.raises(SocketFileError, match="cannot be made"):
        SocketFile(tmp_path / "f.sock" / "below.sock")


def test_the_options_are_those_of_the_environment_and_arguments_win() -> None:
    environment = {
        "SERVERLESS_FRAMEWORK_SOCKET_PATH": "/run/a.sock",
        "SERVERLESS_FRAMEWORK_INVOKE_PATH": "/run",
        "SERVERLESS_FRAMEWORK_HEALTH_PATH": "/live",
        "SERVERLESS_CONCURRENCY": "4",
    }

    options = ServeOptions.of_environment(environment)

    assert options == ServeOptions(Path("/run/a.sock"), "/run", "/live", 4)
    assert ServeOptions.of_environment(environment, concurrency=2, socket_path="b.sock").concurrency == 2
    assert ServeOptions.of_environment({}) == ServeOptions()


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"SERVERLESS_CONCURRENCY": "many"}, "SERVERLESS_CONCURRENCY: expected a number, got 'many'"),
        ({"SERVERLESS_CONCURRENCY": "0"}, "concurrency: expected 1 to 1024, got 0"),
        ({"SERVERLESS_FRAMEWORK_INVOKE_PATH": "invoke"}, "invoke path: expected a path that begins with '/'"),
    ],
)
def test_an_invalid_option_is_named(environment: dict[str, str], message: str) -> None:
    with pytest.raises(FunctionError, match=message):
        ServeOptions.of_environment(environment)
