"""Keeping a copy of one collection up to date, for ever: list it, watch it, and know what to do when either fails.

The rules, in order of what can happen:

- The full state is fetched in pages, the next under way while one is taken in. Objects are collected on the side and
  shown all at once when they are complete, and the watch begins where they end. Pages that expire before the last
  lead to one request for everything.
- Where it is asked for, the state is streamed (WatchList): the server says when the objects are complete, and the same
  stream goes on as the watch. A server that cannot do that is listed in pages.
- A watch that ends is opened again where it stopped. One that delivered an event or lived five seconds is opened again
  at once, at most once a second; a shorter one, and every error, backs off.
- 410 means that the server forgot the place: the state is fetched anew, not older than what is known, and compared.
- 404 to a watch means that the kind is not served. It may come back as another one: the state is fetched anew once it
  does. Until then what is known stays, for nobody said that an object is gone.
- Anything else (403, 429, 5xx, an HTML page, half a line) is no reason to fetch anew: the place is still good. Only a
  stream that breaks at the same place three times in a row is.
- A state that took many requests is not fetched again before a second has passed for each.
- Nothing ends this but cancellation.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from random import Random
from typing import Any

from attrs import field, frozen

from gpuruntime.aio.backoff import Backoff
from gpuruntime.aio.collector import relaxed_collector
from gpuruntime.control.informers.paging import Page, PagesAhead, PageSize, read_page
from gpuruntime.control.informers.reflection import Collection, ReflectorHealth, ReflectorSettings, Sink
from gpuruntime.control.informers.shelf import Shelf
from gpuruntime.kube.answers import Answer
from gpuruntime.kube.errors import (
    BadRequestError,
    ExpiredError,
    InvalidError,
    KubeError,
    NotFoundError,
    TooLargeResourceVersionError,
    UnavailableError,
)
from gpuruntime.kube.request import Request
from gpuruntime.kube.watching import BrokenStreamError, Lines, WatchEvent, parse_event
from gpuruntime.kube.wire import Wire

__all__ = ["Reflector"]

_LOG = logging.getLogger(__name__)
_TIMER_SECONDS = 0.5


class _SilentStartError(Exception):
    """The server ignores the wish for initial events: it answers, but never says that they are complete."""


@frozen
class Reflector:
    """Copies one collection into a sink."""

    wire: Wire
    collection: Collection
    sink: Sink
    settings: ReflectorSettings = field(factory=ReflectorSettings)
    random: Random = field(factory=Random)
    health: ReflectorHealth = field(factory=ReflectorHealth)

    async def run(self) -> None:
        """Copy until cancelled."""
        await _Run(self).forever()


class _Run:
    """The state of one run: where we are in the collection's history."""

    def __init__(self, reflector: Reflector) -> None:
        self._wire = reflector.wire
        self._collection = reflector.collection
        self._sink = reflector.sink
        self._settings = reflector.settings
        self._random = reflector.random
        self._health = reflector.health
        self._backoff = Backoff(reflector.settings.backoff, reflector.random)
        self._version = ""
        self._relist_cause: str | None = "start"
        self._progress = 0
        # When a stream was opened that went on from a known place; collecting a first state is no watching.
        self._watching_since = math.inf
        self._breaks = 0
        self._next_sync = -math.inf
        self._streams_lists = reflector.settings.stream_lists

    async def forever(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began, self._progress, self._watching_since = loop.time(), 0, math.inf
            error: KubeError | None = None
            try:
                if self._relist_cause is not None:
                    await self._sync()
                else:
                    await self._watch()
            except KubeError as failure:
                # Its traceback would keep alive what was collected before it.
                error = failure.with_traceback(None)
                self._learn_from(failure)
            self._health.last_error = error
            await asyncio.sleep(self._pause(began, loop.time(), error))

    def _pause(self, began: float, now: float, error: KubeError | None) -> float:
        wanted = getattr(error, "retry_after", None) or 0.0
        if self._relist_cause is not None:
            wanted = max(wanted, self._next_sync - now)
        watched = now - self._watching_since
        broken_off = error is None or isinstance(error, UnavailableError)
        if broken_off and (self._progress or watched >= self._settings.worthwhile_seconds):
            return max(wanted, self._settings.resume_seconds - (now - began), 0.0)
        delay = max(self._backoff.next(now), wanted)
        if error is not None:
            about = {"path": self._collection.path, "error": str(error), "delay_seconds": round(delay, 2)}
            hint = self._health.hint
            _LOG.warning("watch failed, will retry", extra={**about, "hint": hint} if hint else about)
        return delay

    def _learn_from(self, error: KubeError) -> None:
        if isinstance(error, ExpiredError):
            if self._relist_cause is not None:
                self._version = ""  # even the state "not older than this" is gone
            self._relist_cause = self._relist_cause or "expired"
        elif isinstance(error, TooLargeResourceVersionError):
            # The server's history starts anew below what we saw: it was restored from a backup.
            self._version = ""
            self._relist_cause = self._relist_cause or "restored"
        elif isinstance(error, NotFoundError):
            self._relist_cause = self._relist_cause or "vanished"
        elif isinstance(error, BrokenStreamError):
            self._breaks = 0 if self._progress else self._breaks + 1
            if self._breaks >= self._settings.breaks_before_relist:
                self._breaks = 0
                self._relist_cause = self._relist_cause or "broken"

    async def _sync(self) -> None:
        """Fetch the full state and go on watching."""
        began, asked = asyncio.get_running_loop().time(), self._health.requests
        try:
            await self._fetch_and_watch()
        finally:
            self._next_sync = began + self._settings.resume_seconds * (self._health.requests - asked)

    async def _fetch_and_watch(self) -> None:
        if self._streams_lists:
            try:
                await self._stream_list()
            except (BadRequestError, InvalidError):
                if self._relist_cause is None:
                    raise  # the list was streamed, it is the watch after it that failed
                # This server does not know streamed lists, or has them switched off.
            except _SilentStartError:
                self._streams_lists = False
            else:
                return
        with relaxed_collector():
            await self._page_list()
        await self._watch()

    def _synced(self, version: str) -> None:
        cause, self._relist_cause = self._relist_cause, None
        self._watching_since = asyncio.get_running_loop().time()
        self._health.relists[cause or "start"] = self._health.relists.get(cause or "start", 0) + 1
        self._version = version
        self._progress += 1
        self._breaks = 0

    async def _stream_list(self) -> None:
        loop = asyncio.get_running_loop()
        draft = self._sink.draft()
        collecting = True
        moved = -math.inf
        with ExitStack() as relaxation:
            relaxation.enter_context(relaxed_collector())
            try:
                async with asyncio.timeout(None) as patience:

                    async def handle(event: WatchEvent) -> None:
                        nonlocal collecting
                        if not collecting:
                            await self._take(event)
                        elif event.ends_initial_events:
                            collecting = False
                            patience.reschedule(None)
                            await self._sink.replace(draft, event.resource_version)
                            self._synced(event.resource_version)
                            relaxation.close()
                        elif event.type != "BOOKMARK":
                            # Initial objects come in any order: their versions say nothing about how far we are.
                            _put(draft, event.raw, event.size, gone=event.type == "DELETED")

                    def contact() -> None:
                        # Moving a timer costs as much as reading a chunk: once in a while is enough.
                        nonlocal moved
                        now = loop.time()
                        if collecting and now - moved > _TIMER_SECONDS:
                            moved = now
                            patience.reschedule(now + self._settings.silent_start_seconds)

                    await self._follow(
                        {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}, handle, contact
                    )
            except TimeoutError:
                raise _SilentStartError from None

    async def _page_list(self) -> None:
        draft, version = self._sink.draft(), ""
        size = PageSize(self._settings.page_size, self._settings.page_bytes)
        try:
            async with PagesAhead(self._list, size) as pages:
                async for page in pages:
                    version = page.version
                    await self._collect_page(draft, page)
        except ExpiredError:
            if not version:
                raise
            version = ""
        if not version:
            # The pages took longer than the server remembers. One request for everything cannot expire.
            draft, page = self._sink.draft(), read_page(await self._list({}))
            version = page.version
            await self._collect_page(draft, page)
        await self._sink.replace(draft, version)
        self._synced(version)

    async def _collect_page(self, draft: Shelf, page: Page) -> None:
        loop = asyncio.get_running_loop()
        slice_end = loop.time() + self._settings.slice_seconds
        for raw, size in page.items:
            _put(draft, raw, size)
            if loop.time() > slice_end:
                await asyncio.sleep(0)
                slice_end = loop.time() + self._settings.slice_seconds

    async def _list(self, params: dict[str, str]) -> Answer:
        self._health.requests += 1
        request = Request(
            "GET",
            self._collection.path,
            params=[*params.items(), *self._collection.selectors],
            accept=self._collection.list_accept,
            timeout=self._settings.list_seconds,
        )
        answer = await self._wire.send(request)
        self._contact()
        return answer

    async def _watch(self) -> None:
        await self._follow({}, self._take, lambda: None)

    async def _take(self, event: WatchEvent) -> None:
        if event.type != "BOOKMARK":
            await self._sink.take(event)
        elif event.resource_version:
            self._sink.reached(event.resource_version)
        if event.resource_version:
            self._version = event.resource_version
        self._progress += 1
        self._breaks = 0

    async def _follow(
        self, extra: dict[str, str], handle: Callable[[WatchEvent], Awaitable[None]], contact: Callable[[], None]
    ) -> None:
        """Open a stream where we are and hand on its events, letting others run every few milliseconds."""
        loop = asyncio.get_running_loop()
        params = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(self._random.randint(*self._settings.watch_seconds)),
            **extra,
        }
        self._health.requests += 1
        lines = Lines()
        request = Request(
            "GET",
            self._collection.path,
            params=[*params.items(), *self._collection.selectors],
            accept=self._collection.accept,
        )
        async with self._wire.stream(request, idle_timeout=self._settings.idle_seconds) as chunks:
            if self._relist_cause is None:
                self._watching_since = loop.time()
            contact()
            async for chunk in chunks:
                self._contact()
                contact()
                slice_end = loop.time() + self._settings.slice_seconds
                for line in lines.feed(chunk):
                    event = parse_event(line)
                    if event is not None:
                        await handle(event)
                    if loop.time() > slice_end:
                        await asyncio.sleep(0)
                        slice_end = loop.time() + self._settings.slice_seconds
        lines.end()

    def _contact(self) -> None:
        self._health.last_contact = asyncio.get_running_loop().time()
        self._health.last_error = None


def _put(draft: Shelf, raw: dict[str, Any], size: int, *, gone: bool = False) -> None:
    try:
        entry = draft.entry(raw, size)
    except ValueError as error:
        _LOG.warning("object without a name passed over", extra={"error": str(error)})
        return
    if gone:
        draft.drop(entry.key)
    else:
        draft.put(entry)
