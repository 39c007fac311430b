"""What the floors are measured against: a NATS server that syncs always, and programs that answer."""

import asyncio
import shutil
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from attrs import field, frozen

from gpuruntime.bus import Bus, BusOptions, StreamConfig
from gpuruntime.testing.nats import NatsServer
from gpuruntime.testing.processes.supervised import ChildProcesses
from hack.benchmarks.creating import ObjectsError

__all__ = ["QUEUE", "RESULTS", "Answering", "answering", "connected", "cpu_seconds"]

QUEUE: Final = StreamConfig(
    name="QUEUE",
    subjects=("inv.>",),
    retention="workqueue",
    discard="new",
    discard_new_per_subject=True,
    max_messages_per_subject=1,
    duplicate_window=120.0,
    allow_direct=True,
    allow_atomic=True,
)
"""A stream like that of a function, without its limits."""
RESULTS: Final = StreamConfig(
    name="RESULTS",
    subjects=("res.>",),
    discard="new",
    discard_new_per_subject=True,
    max_messages_per_subject=1,
    allow_direct=True,
    allow_message_ttl=True,
)
_ROOT: Final = Path(__file__).resolve().parents[3]
_START_SECONDS: Final = 60.0
_ECHO: Final = "def echo(payload):\n    return payload\n"


@frozen
class Answering:
    """The server, a connection to it with both streams, and the programs."""

    bus: Bus
    options: BusOptions
    echo_url: str
    """The HTTP echo."""
    echo_pid: int
    framework_socket: Path
    """The socket of a function that returns its payload, served by our SDK."""
    children: ChildProcesses = field(repr=False)


@asynccontextmanager
async def answering(directory: Path) -> AsyncIterator[Answering]:
    """All of them, for the length of the block.

    Raises:
        ObjectsError: a program does not answer.
    """
    try:
        with NatsServer(directory / "nats") as server, ChildProcesses(directory / "programs") as children:
            options = server.options(name="bench")
            async with connected(options) as bus:
                for config in (QUEUE, RESULTS):
                    await bus.jetstream.ensure_stream(config)
                socket = directory / "f.sock"
                (directory / "echo.py").write_text(_ECHO)
                programs = _Programs(children, directory)
                echo_pid, port = await programs.start("http", "hack.benchmarks.functions.echo_program", "http")
                await programs.start(
                    "framework", "gpuruntime.framework", f"{directory}/echo.py:echo", "--socket", str(socket)
                )
                await programs.start("reply", "hack.benchmarks.functions.echo_program", "reply", *_flags(options))
                yield Answering(bus, options, f"http://127.0.0.1:{port}/", echo_pid, socket, children)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@asynccontextmanager
async def connected(options: BusOptions) -> AsyncIterator[Bus]:
    """A bus that is connected, for the length of the block."""
    bus = Bus(options)
    running = asyncio.create_task(bus.run())
    try:
        async with asyncio.timeout(_START_SECONDS):
            await bus.wait_connected()
        yield bus
    finally:
        running.cancel()
        await asyncio.wait([running])


def cpu_seconds(pid: int) -> float:
    """The CPU time of all threads that a process has now, to the nanosecond."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


@frozen
class _Programs:
    children: ChildProcesses
    directory: Path

    async def start(self, name: str, module: str, *arguments: str) -> tuple[int, str]:
        """Start a program; its process ID and its first line, when it answers."""
        log = self.directory / f"{name}.log"
        command = [sys.executable, "-P", "-m", module, *arguments]
        pid = await asyncio.to_thread(self.children.start, name, command, log, {"PYTHONPATH": str(_ROOT)})
        deadline = time.monotonic() + _START_SECONDS
        while "\n" not in (text := log.read_text()):
            if name in self.children.exits() or time.monotonic() > deadline:
                raise ObjectsError(f"the program {name} does not answer: {text[-300:]}")
            await asyncio.sleep(0.02)  # there is no event to await
        return pid, text.splitlines()[0]


def _flags(options: BusOptions) -> tuple[str, ...]:
    files = options.credentials
    return (
        *("--url", options.servers[0]),
        *("--user-file", str(files.user_file)),
        *("--password-file", str(files.password_file)),
        *("--inbox-prefix", options.inbox_prefix),
    )
