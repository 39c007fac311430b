"""Processes of this machine whose end is an event, and that never outlive this process."""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from gpuruntime.testing.processes.supervised import ChildProcesses

__all__ = ["HostProcess", "HostProcesses"]

_LOCK_SECONDS: Final = 30.0


class HostProcess:
    """A started process."""

    def __init__(self, name: str, pid: int, children: ChildProcesses) -> None:
        self.pid: Final = pid
        self._name = name
        self._children = children
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = self._loop.create_future()
        # The supervisor reaps a child only when it is asked about it, so this is no later process of the same PID.
        self._descriptor = os.pidfd_open(pid)
        self._loop.add_reader(self._descriptor, self._on_end)

    @property
    def exit_code(self) -> int | None:
        """None while it runs; the negative number of the signal that ended it."""
        return self._ended.result() if self._ended.done() else None

    async def wait(self) -> int:
        """Its exit code, once it has ended."""
        return await asyncio.shield(self._ended)

    def send(self, number: signal.Signals) -> None:
        """Send a signal; nothing if it has ended."""
        if not self._ended.done():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, number)

    def abandon(self) -> None:
        """Kill it without waiting for its end, because this loop ends."""
        self.send(signal.SIGKILL)
        if not self._ended.done():
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._ended.set_result(-signal.SIGKILL)

    def _on_end(self) -> None:
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)
        self._ended.set_result(self._children.exits()[self._name])


class HostProcesses:
    """Starts processes, for the length of an `async with` block, at whose end all are killed.

    Guarantees:
        - A process has the variables that it is given, and none of this process.
        - All are killed if this process dies for any reason, and `directory` is removed then, too.

    Caveats:
        Starting one blocks the loop for some milliseconds: a start that can be cancelled would leave a process behind.
    """

    def __init__(self, directory: Path) -> None:
        """Use `directory`, which belongs to these processes alone and is removed at the end."""
        self._children = ChildProcesses(directory, _LOCK_SECONDS, temporary=True)
        self._running: dict[str, HostProcess] = {}

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._children.__enter__)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._running.values():
            process.abandon()
        await asyncio.to_thread(self._children.__exit__, None, None, None)

    def start(self, name: str, argv: Sequence[str], *, log: Path, env: Mapping[str, str], cwd: Path) -> HostProcess:
        """Start a process under a name that no running one has; its output is appended to `log`.

        Raises:
            SupervisorError: it could not be started.
        """
        pid = self._children.start(name, argv, log, env, cwd=cwd, clean=True)
        self._running[name] = HostProcess(name, pid, self._children)
        return self._running[name]
