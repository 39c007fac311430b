"""Running a contender: a process of its own that measures itself and says what it found in one JSON object.

The object's fields are numbers, or null for what that contender cannot measure. Its last line that is such an object
counts, whatever else it prints.
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
# A contender that is ended has nothing to save, and the loop must not wait for it: others are being measured.
_GRACE_SECONDS = 0.0


@frozen
class Contender:
    """Somebody who takes part. `broken` says why it cannot even be started."""

    name: str
    command: tuple[str, ...]
    note: str = ""
    environment: Mapping[str, str] = field(factory=dict)
    broken: str | None = None


@frozen
class Failure:
    """A run without a result, and the contender's own last words where there are any."""

    reason: str


Outcome = Reading | Failure


class Runner:
    """Starts contenders in fresh processes; none of them outlives `children`. Output is kept in `directory`."""

    def __init__(self, children: ChildProcesses, directory: Path) -> None:
        self._children = children
        self._directory = directory
        self._numbers = itertools.count(1)

    async def run(
        self, contender: Contender, arguments: tuple[str, ...], environment: Mapping[str, str], limit: float
    ) -> Outcome:
        """Run to the end, or to the end of `limit` seconds; whatever goes wrong with a contender is a `Failure`."""
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
    """Wait for a process that is another process's child."""
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
