"""Contenders: each is a process that measures itself and prints its result as one JSON object.

The fields of the object are numbers, or null for what the contender cannot measure. The last line with such an object
counts; other output is ignored.
"""

import asyncio
import itertools
import json
import os
from collections.abc import Mapping
from pathlib import Path

from attrs import field, frozen

from gpuruntime.testing.processes.supervised import ChildProcesses

__all__ = ["Contender", "Failure", "Outcome", "Reading", "Runner"]

Reading = Mapping[str, float]
# A contender has nothing to save at its end, and waiting for it would block the loop while others are measured.
_GRACE_SECONDS = 0.0


@frozen
class Contender:
    """A program that is measured; `broken` is the reason why it cannot be started."""

    name: str
    command: tuple[str, ...]
    note: str = ""
    environment: Mapping[str, str] = field(factory=dict)
    broken: str | None = None


@frozen
class Failure:
    """A run without a result, with the last line of the contender's output."""

    reason: str


Outcome = Reading | Failure


class Runner:
    """Starts contenders in fresh processes, which end with `children`. Their output is in `directory`."""

    def __init__(self, children: ChildProcesses, directory: Path) -> None:
        self._children = children
        self._directory = directory
        self._numbers = itertools.count(1)

    async def run(
        self, contender: Contender, arguments: tuple[str, ...], environment: Mapping[str, str], limit: float
    ) -> Outcome:
        """Run until the contender exits, for at most `limit` seconds; every error of the contender is a `Failure`."""
        if contender.broken is not None:
            return Failure(contender.broken)
        name = f"{next(self._numbers)}-{contender.name.replace(' ', '-')}"
        log = self._directory / f"{name}.log"
        pid = self._children.start(
            name, [*contender.command, *arguments], log, {**contender.environment, **environment}
        )
        try:
            async with asyncio.timeout(limit):
                await _end_of(pid)
        except TimeoutError:
            return Failure(f"not done after {limit:g} s: {_last_line(log)}")
        finally:
            code = self._children.stop(name, _GRACE_SECONDS)
        if code != 0:
            return Failure(f"exit code {code}: {_last_line(log)}")
        return _result(log) or Failure(f"it printed no result: {_last_line(log)}")


async def _end_of(pid: int) -> None:
    """Wait for the exit of a process that is not a child of this one."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    descriptor = os.pidfd_open(pid)
    try:
        loop.add_reader(descriptor, ended.set)
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _result(log: Path) -> Reading | None:
    for line in reversed(log.read_text(errors="replace").splitlines()):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict) and all(isinstance(value, int | float | None) for value in found.values()):
            return {name: float(value) for name, value in found.items() if value is not None}
    return None


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")
