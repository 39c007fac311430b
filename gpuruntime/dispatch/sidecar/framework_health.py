"""Whether the framework is healthy: polled, and corrected by what invocations find."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from gpuruntime.dispatch.sidecar.durations import Durations
from gpuruntime.dispatch.sidecar.framework_client import FrameworkClient

__all__ = ["FrameworkHealth"]

_LOG = logging.getLogger(__name__)
_MOST_TIMEOUTS: Final = 3


class FrameworkHealth:
    """The health of the framework, as far as it is known.

    Guarantees:
        It is not healthy until a health check has succeeded. A check that fails counts at once. One that is not
        answered counts the third time in a row: a function that computes for seconds may hold up the check.
    """

    def __init__(self, framework: FrameworkClient, durations: Durations) -> None:
        self._framework = framework
        self._durations = durations
        self._problem = "the framework was not asked yet"
        self._stuck: set[str] = set()
        self._timeouts = 0
        self._asked = asyncio.Event()
        self.changed: Callable[[], None] = lambda: None
        """Called when `problem` becomes empty, or is no longer empty."""

    @property
    def problem(self) -> str:
        """Why the framework cannot take work; an empty text if it can."""
        return self.stuck or self._problem

    @property
    def stuck(self) -> str:
        """Why the framework has to be restarted; an empty text if it has not."""
        return (
            f"the framework does not end cancelled invocations: {', '.join(sorted(self._stuck))}" if self._stuck else ""
        )

    async def watch(self) -> None:
        """Ask for ever."""
        while True:
            # Cleared first: what is reported while a check runs is newer than its answer.
            self._asked.clear()
            await self._ask()
            try:
                async with asyncio.timeout(self._pause()):
                    await self._asked.wait()
            except TimeoutError:
                continue

    def lost(self, problem: str) -> None:
        """An invocation found the framework away: it is not healthy until the next check."""
        self._set(problem, self._stuck)
        self.check_soon()

    def check_soon(self) -> None:
        """Ask now, and not at the end of the pause."""
        self._asked.set()

    def mark_stuck(self, id_: str) -> None:
        """A run has not ended in spite of its cancellation."""
        _LOG.error("the framework does not end a cancelled invocation, and has to be restarted", extra={"id": id_})
        self._set(self._problem, self._stuck | {id_})

    def mark_ended(self, id_: str) -> None:
        """A run has ended, late or not."""
        self._set(self._problem, self._stuck - {id_})

    async def _ask(self) -> None:
        try:
            problem = await self._framework.problem(self._durations.health_timeout)
        except TimeoutError:
            self._timeouts += 1
            if self._timeouts < _MOST_TIMEOUTS:
                return
            problem = f"the framework did not answer {self._timeouts} health checks in a row"
        else:
            self._timeouts = 0
        self._set(problem, self._stuck)

    def _pause(self) -> float:
        if not self._problem:
            return self._durations.health_healthy
        return self._durations.health_absent if self._framework.is_absent else self._durations.health_unhealthy

    def _set(self, problem: str, stuck: set[str]) -> None:
        before = bool(self.problem)
        self._problem, self._stuck = problem, stuck
        if bool(self.problem) == before:
            return
        if before:
            _LOG.info("the framework is healthy")
        else:
            _LOG.warning("the framework is not healthy", extra={"reason": self.problem})
        self.changed()
