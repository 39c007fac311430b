"""Health checks, run concurrently and isolated from each other, each with a timeout."""

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
    "handlers_succeeding",
    "loop_alive",
]

_LOG = logging.getLogger(__name__)
_TIMEOUT_SECONDS: Final = 1.0

Check = Callable[[], Awaitable[None] | None]
"""Returns if healthy, else raises `NotHealthyError`. It may be called again before it has returned."""


class NotHealthyError(Exception):
    """Raised by a failing check; the message says what is wrong, for an operator to read."""


class UnknownCheckError(LookupError):
    """There is no check of that name; the message lists the known ones."""


@frozen
class Verdict:
    """The result of one check. `reason` is empty unless it failed."""

    name: str
    status: Literal["ok", "failed", "excluded"]
    reason: str = ""


class HealthChecks:
    """Named checks; more can be added at any time.

    Guarantees:
        - Checks run concurrently, each for at most one second; a slower check is cancelled and has failed.
        - A check that raises any exception has failed, without affecting the others.
        - A check that starts to fail is logged once with the reason, and once more when it recovers.

    Caveats:
        A check that blocks the loop or suppresses its cancellation delays the response.
    """

    def __init__(self) -> None:
        self._checks: dict[str, Check] = {}
        self._failing: set[str] = set()

    def add(self, name: str, check: Check) -> None:
        """Add a check under a name.

        Raises:
            ValueError: the name is taken, empty, or contains a slash.
        """
        if not name or "/" in name:
            raise ValueError(f"expected a health check name without '/', got {name!r}")
        if name in self._checks:
            raise ValueError(f"health check {name!r} already exists: give each check a name of its own")
        self._checks[name] = check

    async def run(self, exclude: Collection[str] = ()) -> tuple[Verdict, ...]:
        """Run every check that is not excluded; returns the verdicts of all, in the order of `add`."""
        async with asyncio.TaskGroup() as tasks:
            started = {
                name: tasks.create_task(self._run(name), name=f"health check {name}")
                for name in self._checks
                if name not in exclude
            }
        return tuple(started[name].result() if name in started else Verdict(name, "excluded") for name in self._checks)

    async def run_one(self, name: str) -> Verdict:
        """Run one check.

        Raises:
            UnknownCheckError: there is no check of that name.
        """
        if name not in self._checks:
            raise UnknownCheckError(f"no check {name!r}: expected one of {', '.join(self._checks) or 'none'}")
        return await self._run(name)

    async def _run(self, name: str) -> Verdict:
        timeout = asyncio.timeout(_TIMEOUT_SECONDS)
        try:
            async with timeout:
                result = self._checks[name]()
                if inspect.isawaitable(result):
                    await result
        except NotHealthyError as error:
            return self._failed(name, str(error))
        except Exception as error:  # noqa: BLE001 - any error of a check means unhealthy
            if isinstance(error, TimeoutError) and timeout.expired():
                return self._failed(name, f"timed out after {_TIMEOUT_SECONDS:g} s")
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
    """A check that every informer of the cache has synced."""

    def check() -> None:
        late = [f"{_name(informer)} ({_errors(informer)})" for informer in cache.informers if not informer.has_synced]
        if late:
            raise NotHealthyError(f"not synced: {'; '.join(late)}")

    return check


def caches_fresh(cache: Cache, max_age_seconds: float) -> Check:
    """A check that every informer of the cache received something from the server in the last `max_age_seconds`.

    Caveats:
        Where nothing changes, only a bookmark per minute arrives: allow at least 90 seconds.
    """

    def check() -> None:
        now = asyncio.get_running_loop().time()
        stale = [
            f"{_name(informer)} ({_last_contact(informer.age(now))}; {_errors(informer)})"
            for informer in cache.informers
            if informer.age(now) > max_age_seconds
        ]
        if stale:
            raise NotHealthyError(f"no contact within {max_age_seconds:g} s: {'; '.join(stale)}")

    return check


def handlers_succeeding(cache: Cache, controllers: Sequence[Controller[Any]]) -> Check:
    """A check that no trigger, predicate, index or other callback of informers and sources is failing."""

    def check() -> None:
        failing = [f"{_name(informer)}: {trouble}" for informer in cache.informers for trouble in informer.failing]
        for controller in controllers:
            failing += [f"controller {controller.name}: {trouble}" for trouble in controller.source_troubles]
        if failing:
            raise NotHealthyError("; ".join(failing))

    return check


def loop_alive(watchdog: LoopWatchdog, max_stall_seconds: float = 5.0) -> Check:
    """A check that the loop is watched and is not late by more than `max_stall_seconds`.

    It runs in the loop itself, so it reports stalls that have just ended and those that recur. During a stall the probe
    gets no response at all, and times out.
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


def _last_contact(age: float) -> str:
    return "none yet" if age == float("inf") else f"{age:.0f} s ago"


def _errors(informer: Informer[Any]) -> str:
    return ", ".join(informer.troubles) or "no error"
