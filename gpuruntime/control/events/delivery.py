"""Delivery of event series to the server, with retries."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from random import Random
from typing import Any, Final, Protocol

from gpuruntime.aio.lru import LRU
from gpuruntime.control.events.correlator import DropCause, EventCorrelator, EventCounters
from gpuruntime.control.events.series import Series, Tally
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

_ATTEMPTS: Final = 12
_FORBIDDEN_ATTEMPTS: Final = 6
_RETRY_SECONDS: Final = 10.0
_JITTER: Final = 0.25
_TERMINATING: Final = "NamespaceTerminating"
_LRU_SIZE: Final = 4096

_EVENT: Final = metadata_only(Event.KIND)
# The same objects in the core group. Only there can a note be changed: in events.k8s.io/v1 it is immutable.
_CORE_EVENT: Final = metadata_only(ResourceKind("", "v1", "Event", "events", namespaced=True))

# Errors that do not concern the event itself. Any other StatusError is final, except 403: see below.
_RETRIABLE: Final = (
    UnavailableError,
    UnexpectedResponseError,
    CredentialsError,
    UnauthorizedError,
    ServerError,
    TooManyRequestsError,
)


class EventWriter(Protocol):
    """What delivery needs of a client."""

    async def create(self, obj: Event) -> Event: ...

    async def patch(self, form: Form[Any], name: str, namespace: str, patch: MergePatch) -> Any: ...


class EventDelivery:
    """Delivers the series that a correlator has queued.

    If the server is unavailable or fails, a write is attempted 12 times, about ten seconds apart, each time with the
    newest state. A refusal is final, except 403: an API server that is starting does not know the roles yet, so a
    forbidden write is attempted 6 times, unless the last event in that namespace stayed forbidden. Refusals with the
    same code and reason are logged once per namespace. Events of a replica that does not lead are dropped.
    """

    def __init__(
        self,
        client: EventWriter,
        correlator: EventCorrelator,
        counters: EventCounters,
        *,
        controller: str,
        instance: str,
        now: Callable[[], datetime],
        random: Random,
    ) -> None:
        self._client = client
        self._correlator = correlator
        self._counters = counters
        self._controller = controller
        self._instance = instance
        self._now = now
        self._random = random
        self._stopping = asyncio.Event()
        self._forbidden: LRU[str, bool] = LRU(_LRU_SIZE)
        self._logged: LRU[tuple[str, str, int, str], bool] = LRU(_LRU_SIZE)

    async def work(self) -> None:
        """Deliver until cancelled. Any number of workers may run concurrently."""
        while True:
            series = await self._correlator.next()
            await self._deliver(series)
            self._correlator.done(series, self._now().timestamp())

    def stop_retrying(self) -> None:
        """Stop waiting between attempts: a write that waits is attempted once more, now."""
        self._stopping.set()

    async def _deliver(self, series: Series) -> None:
        try:
            for attempts_left in reversed(range(_ATTEMPTS)):
                tally = series.tally
                try:
                    await self._write(series, tally)
                except _RETRIABLE:
                    if not attempts_left or self._stopping.is_set():
                        raise
                except StatusError as error:
                    left = attempts_left - (_ATTEMPTS - _FORBIDDEN_ATTEMPTS)
                    if left <= 0 or self._stopping.is_set() or not self._may_be_allowed_later(series, error):
                        self._refused(series, tally, error)
                        return
                else:
                    self._forbidden.discard(series.namespace)
                    series.accepted(tally, self._now().timestamp())
                    return
                await self._backoff()
        except NotSentError:
            self._counters.dropped[DropCause.NOT_LEADER] += series.pending
            self._correlator.give_up(series, self._now().timestamp())
        except Exception as error:  # noqa: BLE001 - the worker must continue with other events
            self._counters.failed += 1
            self._correlator.give_up(series, self._now().timestamp())
            _LOG.warning("event delivery failed, giving up", extra={**_log_fields(series), "error": str(error)})

    async def _write(self, series: Series, tally: Tally) -> None:
        if series.exists:
            try:
                await self._patch(series, tally)
            except NotFoundError:
                # It was deleted, or has expired.
                series.exists = False
            else:
                return
        try:
            # The write has succeeded, even if its response cannot be decoded.
            with suppress(DecodeError):
                await self._client.create(series.event(tally, self._controller, self._instance))
        except AlreadyExistsError:
            # An earlier attempt succeeded, but its response was lost. It may have carried a lower count.
            series.exists = True
        self._counters.sent += 1
        if series.exists and tally.count > 1:
            await self._patch(series, tally)

    async def _patch(self, series: Series, tally: Tally) -> None:
        body = series.patch(tally)
        if series.note_changed(tally):
            try:
                await self._patch_with(_CORE_EVENT, series, {**body, "message": tally.note})
            except ForbiddenError as error:
                # The count without the note is better than neither.
                if self._is_new("note", series, error):
                    _LOG.warning(
                        "event note not updated: grant patch on events of the core group",
                        extra={**_log_fields(series), "error": str(error)},
                    )
            else:
                return
        await self._patch_with(_EVENT, series, body)

    async def _patch_with(self, form: Form[Any], series: Series, body: dict[str, Any]) -> None:
        with suppress(DecodeError):
            await self._client.patch(form, series.name, series.namespace, MergePatch(body))
        self._counters.patched += 1

    def _may_be_allowed_later(self, series: Series, error: StatusError) -> bool:
        """Whether the server may be one that is starting and does not know the roles yet."""
        if not isinstance(error, ForbiddenError) or self._forbidden.get(series.namespace):
            return False
        return all(cause.reason != _TERMINATING for cause in error.causes)

    def _refused(self, series: Series, tally: Tally, error: StatusError) -> None:
        self._counters.failed += 1
        if isinstance(error, ForbiddenError):
            self._forbidden.put(series.namespace, True)
        series.refused(tally, self._now().timestamp())
        if self._is_new("event", series, error):
            _LOG.warning("event refused, not retried", extra={**_log_fields(series), "error": str(error)})

    def _is_new(self, what: str, series: Series, error: StatusError) -> bool:
        problem = (what, series.namespace, error.code, error.reason)
        is_new = problem not in self._logged
        self._logged.put(problem, True)
        return is_new

    async def _backoff(self) -> None:
        seconds = _RETRY_SECONDS * (1 + _JITTER * self._random.random())
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()


def _log_fields(series: Series) -> dict[str, str]:
    regarding = series.key.regarding
    return {
        "event": f"{series.namespace}/{series.name}",
        "reason": series.key.reason,
        "regarding": f"{regarding.kind} {regarding.namespace or ''}/{regarding.name}",
    }
