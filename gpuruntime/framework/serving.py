"""Serving a function until SIGTERM: setup, the socket, the drain."""

import asyncio
import functools
import inspect
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Final, cast

from gpuruntime.framework.http_messages import HttpLimits
from gpuruntime.framework.runs import Runs
from gpuruntime.framework.server import FrameworkServer, Routes
from gpuruntime.framework.socket_file import SocketFile
from gpuruntime.framework.user_function import FunctionError, UserFunction
from gpuruntime.framework.worker_threads import WorkerThreads

__all__ = ["ServeOptions", "serve", "serve_until"]

_SOCKET: Final = "/tmp/serverless-framework/framework.sock"  # noqa: S108 - the volume that the sidecar shares
_MOST_CONCURRENCY: Final = 1024


@dataclass(frozen=True)
class ServeOptions:
    """Where and how a function is served. The controller sets the environment variables of `of_environment`."""

    socket_path: Path = Path(_SOCKET)
    invoke_path: str = "/invoke"
    health_path: str = "/healthz"
    concurrency: int = 1
    limits: HttpLimits = field(default_factory=HttpLimits)

    def __post_init__(self) -> None:
        for name, path in (("invoke path", self.invoke_path), ("health path", self.health_path)):
            if not path.startswith("/"):
                raise FunctionError(f"{name}: expected a path that begins with '/', got {path!r}")
        if not 1 <= self.concurrency <= _MOST_CONCURRENCY:
            raise FunctionError(f"concurrency: expected 1 to {_MOST_CONCURRENCY}, got {self.concurrency}")

    @classmethod
    def of_environment(
        cls, environment: Mapping[str, str], *, concurrency: int | None = None, socket_path: str | None = None
    ) -> "ServeOptions":
        """The options in the environment of a worker; arguments win.

        Raises:
            FunctionError: a value is invalid.
        """
        text = environment.get("SERVERLESS_CONCURRENCY") or "1"
        if concurrency is None and not text.isdecimal():
            raise FunctionError(f"SERVERLESS_CONCURRENCY: expected a number, got {text!r}")
        return cls(
            socket_path=Path(socket_path or environment.get("SERVERLESS_FRAMEWORK_SOCKET_PATH") or _SOCKET),
            invoke_path=environment.get("SERVERLESS_FRAMEWORK_INVOKE_PATH") or "/invoke",
            health_path=environment.get("SERVERLESS_FRAMEWORK_HEALTH_PATH") or "/healthz",
            concurrency=int(text) if concurrency is None else concurrency,
        )


def serve(
    function: Callable[..., Any],
    *,
    setup: Callable[[], Any] | None = None,
    concurrency: int | None = None,
    socket_path: str | None = None,
) -> None:
    """Serve a function of (payload, context) until SIGTERM or Ctrl-C, then wait for what runs.

    `setup` runs once before the first invocation, and health is not ok until it returns; what it returns is
    `context.state`. Sync functions run in `concurrency` threads, async ones in the event loop. `concurrency` and
    `socket_path` come from the environment of the worker unless they are given.

    Guarantees:
        A function that raises fails its invocation, not the process. A second signal ends the process at once.

    Raises:
        FunctionError: the function or an option is invalid.
        SocketFileError: the socket cannot be made.
        Exception: what `setup` raised.
    """
    served = UserFunction.of(function)
    options = ServeOptions.of_environment(os.environ, concurrency=concurrency, socket_path=socket_path)
    # What a function prints is in the log of the container at once, and not when some kilobytes are there.
    with suppress(AttributeError, ValueError):
        cast("TextIOWrapper", sys.stdout).reconfigure(line_buffering=True)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    asyncio.run(_serve_until_signal(served, setup, options))


async def _serve_until_signal(function: UserFunction, setup: Callable[[], Any] | None, options: ServeOptions) -> None:
    stopping, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, functools.partial(_stop, stopping))
    await serve_until(stopping, function, setup, options)


def _stop(stopping: asyncio.Event) -> None:
    if stopping.is_set():
        # What still runs ignores its cancellation, or is wanted by no one.
        os._exit(1)
    stopping.set()


async def serve_until(
    stopping: asyncio.Event, function: UserFunction, setup: Callable[[], Any] | None, options: ServeOptions
) -> None:
    """Serve until `stopping` is set and what runs has ended. The socket is there before `setup` runs."""
    loop = asyncio.get_running_loop()
    threads = WorkerThreads(loop)
    runs = Runs(function, threads, options.concurrency)
    problems = ["setup is running"]

    def problem() -> str:
        return "the framework is shutting down" if runs.is_draining else problems[-1] if problems else ""

    routes = Routes(runs, problem, options.invoke_path, options.health_path, options.limits)
    file = SocketFile(options.socket_path)
    server = FrameworkServer(routes, file.socket)
    preparing = asyncio.create_task(_set_up(setup, threads))
    waiting = asyncio.create_task(stopping.wait())
    try:
        await server.start()
        await asyncio.wait((preparing, waiting), return_when=asyncio.FIRST_COMPLETED)
        if preparing.done():
            runs.state = preparing.result()
            problems.clear()
            print(f"serving {function.name} on {options.socket_path}", flush=True)
            await waiting
        await runs.drain()
    finally:
        await _cancelled(preparing, waiting)
        await server.close()
        file.close()


async def _set_up(setup: Callable[[], Any] | None, threads: WorkerThreads) -> Any:
    if setup is None:
        return None
    if inspect.iscoroutinefunction(setup):
        return await setup()
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

    def work() -> tuple[Any, BaseException | None]:
        try:
            return setup(), None
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - raised below, in the loop
            return None, error

    threads.run(work, lambda result: None if outcome.cancelled() else outcome.set_result(result))
    state, error = await outcome
    if error is not None:
        raise error
    return state


async def _cancelled(*tasks: "asyncio.Task[Any]") -> None:
    for task in tasks:
        task.cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError, Exception):
            await task
