"""Checks of whether a manager is well, and how they are run: together, each by itself, none for long."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Final, Literal

from attrs import frozen

from gpuruntime.control.controllers.controller import Controller
from gpuruntime.control.informers.cache import Cache
from gpuruntime.control.informers.informer import Informer
from gpuruntime.control.metrics.informers import InformerLabels
from gpuruntime.control.watchdog.loop_watchdog import LoopWatchdog

__all__ = [
    "Check",
    "HealthChecks",
    "NotHealthyError",
    "UnknownCheckError",
    "Verdict",
    "caches_fresh",
    "caches_synced",
    "handlers_well",
    "loop_alive",
]

_LOG = logging.getLogger(__name__)
_BUDGET_SECONDS: Final = 1.0

Check = Callable[[], Awaitable[None] | None]
"""Returns if all is well, else raises `NotHealthyError`. It may be asked again before it has answered."""


class NotHealthyError(Exception):
    """What is not well, in words for an operator: a check raises it."""


class UnknownCheckError(LookupError):
    """There is no check of that name; the message lists those there are."""


@frozen
class Verdict:
    """What became of one check. `reason` is empty unless it failed."""

    name: str
    status: Literal["ok", "failed", "excluded"]
    reason: str = ""


class HealthChecks:
    """Named checks, which may be added at any time.

    Guarantees:
        - Checks run at the same time, and each has a second; one that takes longer is cancelled and has failed.
        - A check that raises anything at all has failed, and no other with it.
        - That a check begins to fail, why, and that it is well again is logged once.

    Caveats:
        A check that blocks the loop, or refuses to be cancelled, holds up the answer.
    """

    def __init__(self) -> None:
        self._checks: dict[str, Check] = {}
        self._failing: set[str] = set()

    def add(self, name: str, check: Check) -> None:
        """Ask this check from now on.

        Raises:
            ValueError: the name is taken, empty, or not fit to be a part of a path.
        """
        if not name or "/" in name:
            raise ValueError(f"expected a name of a health check without '/', got {name!r}")
        if name in self._checks:
            raise ValueError(f"there is a health check {name!r} already: give each a name of its own")
        self._checks[name] = check

    async def run(self, exclude: Collection[str] = ()) -> tuple[Verdict, ...]:
        """Ask every check that is not excluded; the verdicts on all, in the order in which they were added."""
        async with asyncio.TaskGroup() as tasks:
            asked = {
                name: tasks.create_task(self._ask(name), name=f"health check {name}")
                for name in self._checks
                if name not in exclude
            }
        return tuple(asked[name].result() if name in asked else Verdict(name, "excluded") for name in self._checks)

    async def run_one(self, name: str) -> Verdict:
        """Ask one check.

        Raises:
            UnknownCheckError: there is none of that name.
        """
        if name not in self._checks:
            raise UnknownCheckError(f"no check {name!r}: there are {', '.join(self._checks) or 'none'}")
        return await self._ask(name)

    async def _ask(self, name: str) -> Verdict:
        budget = asyncio.timeout(_BUDGET_SECONDS)
        try:
            async with budget:
                answer = self._checks[name]()
                if inspect.isawaitable(answer):
                    await answer
        except NotHealthyError as error:
            return self._failed(name, str(error))
        except Exception as error:  # noqa: BLE001 - whatever a check raises, it is not well
            if isinstance(error, TimeoutError) and budget.expired():
                return self._failed(name, f"no answer within {_BUDGET_SECONDS:g} s")
            return self._failed(name, f"{type(error).__name__}: {error}", error)
        if name in self._failing:
            self._failing.remove(name)
            _LOG.info("health check recovered", extra={"check": name})
        return Verdict(name, "ok")

    def _failed(self, name: str, reason: str, unexpected: Exception | None = None) -> Verdict:
        if name not in self._failing:
            self._failing.add(name)
            _LOG.warning("health check failed", extra={"check": name, "reason": reason}, exc_info=unexpected)
        return Verdict(name, "failed", reason)


def caches_synced(cache: Cache) -> Check:
    """Every informer of the cache has seen a full state."""

    def check() -> None:
        late = [f"{_name(informer)} ({_errors(informer)})" for informer in cache.informers if not informer.has_synced]
        if late:
            raise NotHealthyError(f"not synced: {'; '.join(late)}")

    return check


def caches_fresh(cache: Cache, max_age_seconds: float) -> Check:
    """Every informer of the cache heard of the server within so many seconds.

    Caveats:
        Nothing but a bookmark a minute arrives where nothing changes: allow 90 seconds at least.
    """

    def check() -> None:
        now = asyncio.get_running_loop().time()
        stale = [
            f"{_name(informer)} ({_since(informer.age(now))}; {_errors(informer)})"
            for informer in cache.informers
            if informer.age(now) > max_age_seconds
        ]
        if stale:
            raise NotHealthyError(f"no contact within {max_age_seconds:g} s: {'; '.join(stale)}")

    return check


def handlers_well(cache: Cache, controllers: Sequence[Controller[Any]]) -> Check:
    """No trigger, predicate, index or other code that informers and sources call fails and is tried again."""

    def check() -> None:
        failing = [f"{_name(informer)}: {trouble}" for informer in cache.informers for trouble in informer.failing]
        for controller in controllers:
            failing += [f"controller {controller.name}: {trouble}" for trouble in controller.source_troubles]
        if failing:
            raise NotHealthyError("; ".join(failing))

    return check


def loop_alive(watchdog: LoopWatchdog, max_stall_seconds: float = 5.0) -> Check:
    """The loop is watched, and nothing blocked it for longer than so many seconds just now.

    A check in the loop itself only finds a block that has ended. One that has not is found by whoever asks and gets no
    answer; one that comes back all the time is found by this.
    """

    def check() -> None:
        late = watchdog.lateness
        if late is None:
            raise NotHealthyError("the event loop is not watched")
        if late > max_stall_seconds:
            raise NotHealthyError(f"the event loop was blocked for {late:.1f} s")

    return check


def _name(informer: Informer[Any]) -> str:
    return " ".join(filter(None, InformerLabels.of(informer.scope)))


def _since(age: float) -> str:
    return "none yet" if age == float("inf") else f"{age:.0f} s ago"


def _errors(informer: Informer[Any]) -> str:
    return ", ".join(informer.troubles) or "no error"
