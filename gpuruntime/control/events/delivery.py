"""Telling the server of a series of events, and what to make of its answers."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from random import Random
from typing import Any, Final, Protocol

from gpuruntime.control.events.counters import DropCause, EventCounters
from gpuruntime.control.events.ledger import EventLedger
from gpuruntime.control.events.series import Series, Tally
from gpuruntime.control.lru import LRU
from gpuruntime.kube.builtin.events import Event
from gpuruntime.kube.errors import (
    AlreadyExistsError,
    CredentialsError,
    ForbiddenError,
    NotFoundError,
    NotSentError,
    ServerError,
    StatusError,
    TooManyRequestsError,
    UnauthorizedError,
    UnavailableError,
    UnexpectedResponseError,
)
from gpuruntime.kube.forms import Form, metadata_only
from gpuruntime.kube.patches import MergePatch
from gpuruntime.meta import DecodeError, ResourceKind

__all__ = ["EventDelivery", "EventWriter"]

_LOG = logging.getLogger(__name__)

_TRIES: Final = 12
_FORBIDDEN_TRIES: Final = 6
_PAUSE_SECONDS: Final = 10.0
_JITTER: Final = 0.25
_TERMINATING: Final = "NamespaceTerminating"
_MEMORY: Final = 4096

_EVENT: Final = metadata_only(Event.KIND)
# The same objects in their older form. Only there may a note be changed: events.k8s.io/v1 holds it to be immutable.
_CORE_EVENT: Final = metadata_only(ResourceKind("", "v1", "Event", "events", namespaced=True))

# They say nothing about the event. Any other StatusError is the server's last word on it, but for 403: see below.
_FAILURES: Final = (
    UnavailableError,
    UnexpectedResponseError,
    CredentialsError,
    UnauthorizedError,
    ServerError,
    TooManyRequestsError,
)


class EventWriter(Protocol):
    """What is needed of a client."""

    async def create(self, obj: Event) -> Event: ...

    async def patch(self, form: Form[Any], name: str, namespace: str, patch: MergePatch) -> Any: ...


class EventDelivery:
    """Delivers what a ledger has queued.

    A server that is not there, or fails, is tried 12 times, about ten seconds apart, each time with the newest state.
    A refusal is final, but for 403: an API server that starts knows no roles yet, so that is tried 6 times, unless the
    last event of the namespace was refused like this for good. Refusals of one sort in one namespace are logged once.
    What a guard of this process keeps back is dropped.
    """

    def __init__(
        self,
        client: EventWriter,
        ledger: EventLedger,
        counters: EventCounters,
        *,
        controller: str,
        instance: str,
        now: Callable[[], datetime],
        random: Random,
    ) -> None:
        self._client = client
        self._ledger = ledger
        self._counters = counters
        self._controller = controller
        self._instance = instance
        self._now = now
        self._random = random
        self._in_a_hurry = asyncio.Event()
        self._forbidden: LRU[str, bool] = LRU(_MEMORY)
        self._logged: LRU[tuple[str, str, int, str], bool] = LRU(_MEMORY)

    async def work(self) -> None:
        """Deliver until cancelled; any number of workers may."""
        while True:
            series = await self._ledger.next()
            await self._deliver(series)
            self._ledger.done(series, self._now().timestamp())

    def hurry(self) -> None:
        """Wait no more: a write that waits for its next try is tried once more, now."""
        self._in_a_hurry.set()

    async def _deliver(self, series: Series) -> None:
        try:
            for tries_left in reversed(range(_TRIES)):
                tally = series.tally
                try:
                    await self._write(series, tally)
                except _FAILURES:
                    if not tries_left or self._in_a_hurry.is_set():
                        raise
                except StatusError as error:
                    left = tries_left - (_TRIES - _FORBIDDEN_TRIES)
                    if left <= 0 or self._in_a_hurry.is_set() or not self._may_be_allowed(series, error):
                        self._refused(series, tally, error)
                        return
                else:
                    self._forbidden.discard(series.namespace)
                    series.accepted(tally, self._now().timestamp())
                    return
                await self._pause()
        except NotSentError:
            self._counters.dropped[DropCause.NOT_LEADER] += series.untold
            self._ledger.lost(series, self._now().timestamp())
        except Exception as error:  # noqa: BLE001 - whatever it is, the worker must go on with other events
            self._counters.failed += 1
            self._ledger.lost(series, self._now().timestamp())
            _LOG.warning("event could not be sent, given up", extra={**_names(series), "error": str(error)})

    async def _write(self, series: Series, tally: Tally) -> None:
        if series.exists:
            try:
                await self._patch(series, tally)
            except NotFoundError:
                # It was deleted, or lived for too long.
                series.exists = False
            else:
                return
        try:
            # The write is done by the time that its answer is found to be odd.
            with suppress(DecodeError):
                await self._client.create(series.event(tally, self._controller, self._instance))
        except AlreadyExistsError:
            # An earlier try got through, but its answer did not. It may have told less.
            series.exists = True
        self._counters.sent += 1
        if series.exists and tally.count > 1:
            await self._patch(series, tally)

    async def _patch(self, series: Series, tally: Tally) -> None:
        change = series.change(tally)
        if series.has_news(tally):
            try:
                await self._patch_with(_CORE_EVENT, series, {**change, "message": tally.note})
            except ForbiddenError as error:
                # The count without the note is better than neither.
                if self._is_new("note", series, error):
                    _LOG.warning(
                        "note of an event not updated: grant patch on events of the core group",
                        extra={**_names(series), "error": str(error)},
                    )
            else:
                return
        await self._patch_with(_EVENT, series, change)

    async def _patch_with(self, form: Form[Any], series: Series, body: dict[str, Any]) -> None:
        with suppress(DecodeError):
            await self._client.patch(form, series.name, series.namespace, MergePatch(body))
        self._counters.patched += 1

    def _may_be_allowed(self, series: Series, error: StatusError) -> bool:
        """Whether the refusal may be that of a server that does not know the roles yet."""
        if not isinstance(error, ForbiddenError) or self._forbidden.get(series.namespace):
            return False
        return all(cause.reason != _TERMINATING for cause in error.causes)

    def _refused(self, series: Series, tally: Tally, error: StatusError) -> None:
        self._counters.failed += 1
        if isinstance(error, ForbiddenError):
            self._forbidden.put(series.namespace, True)
        series.refused(tally, self._now().timestamp())
        if self._is_new("event", series, error):
            _LOG.warning("event refused, not tried again", extra={**_names(series), "error": str(error)})

    def _is_new(self, what: str, series: Series, error: StatusError) -> bool:
        sort = (what, series.namespace, error.code, error.reason)
        is_new = sort not in self._logged
        self._logged.put(sort, True)
        return is_new

    async def _pause(self) -> None:
        seconds = _PAUSE_SECONDS * (1 + _JITTER * self._random.random())
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._in_a_hurry.wait()


def _names(series: Series) -> dict[str, str]:
    regarding = series.key.regarding
    return {
        "event": f"{series.namespace}/{series.name}",
        "reason": series.key.reason,
        "regarding": f"{regarding.kind} {regarding.namespace or ''}/{regarding.name}",
    }
