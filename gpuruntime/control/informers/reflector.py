"""Keeps a copy of one collection up to date: list, watch, and recover from every failure of either.

The rules, in order of what can happen:

- The full list is fetched in pages; the next page is requested while one is taken in. Objects are collected on the side
  and replace the store at once when they are complete. The watch begins at the version of the list. If the pages expire
  before the last one, everything is listed in one request.
- With `stream_lists` the list is streamed (WatchList): a bookmark ends the initial objects, and the same stream goes on
  as the watch. A server without WatchList is listed in pages.
- A watch that ends is resumed from the last version. One that delivered an event or lived five seconds is resumed at
  once, at most once a second; a shorter one, and every error, backs off.
- 410 means that the version is too old: relist, not older than what is known, and diff.
- 404 to a watch means that the kind is not served. It may come back as another one: relist once it does. Until then the
  store keeps its objects, because no deletion was seen.
- After any other error (403, 429, 5xx, an HTML page, half a line) the version is still good and the watch is resumed.
  Only a stream that breaks at the same version three times in a row causes a relist.
- A list that took many requests is not fetched again before a second has passed for each of them.
- Nothing ends this but cancellation.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from random import Random
from typing import Any, Protocol

from attrs import field, frozen

from gpuruntime.aio.backoff import Backoff, BackoffSchedule
from gpuruntime.aio.collector import relaxed_collector
from gpuruntime.control.informers.indexer import Indexer
from gpuruntime.control.informers.paging import Page, PagesAhead, PageSize, read_page
from gpuruntime.kube.errors import (
    BadRequestError,
    ExpiredError,
    InvalidError,
    KubeError,
    NotFoundError,
    TooLargeResourceVersionError,
    UnavailableError,
)
from gpuruntime.kube.transport.middleware import Wire
from gpuruntime.kube.transport.request import Request
from gpuruntime.kube.transport.response import Response
from gpuruntime.kube.watch_events import BrokenStreamError, Lines, WatchEvent, parse_event

__all__ = ["Collection", "Reflector", "ReflectorHealth", "ReflectorSettings", "ReflectorStore"]

_LOG = logging.getLogger(__name__)
_TIMER_SECONDS = 0.5
# Any namespace can be listed, even one that does not exist: a 404 is about the kind.
_NOT_SERVED = "the server does not serve this kind; install its CRD, and the watch resumes by itself"


@frozen
class ReflectorSettings:
    """Timeouts, backoff and page sizes of a reflector. The defaults suit real servers.

    A list is fetched in pages of about `page_bytes` bytes, and of at most `page_size` objects: small enough to be taken
    in beside other work, large enough that the requests cost little.

    `stream_lists` streams the list instead, as the beginning of the watch (WatchList). A server encodes each object
    twice for that, so it takes almost twice as long; but it reads from the server's memory, where servers before 1.34
    read each page from etcd.
    """

    backoff: BackoffSchedule = BackoffSchedule(base=0.8, factor=2.0, cap=30.0, reset=120.0)
    worthwhile_seconds: float = 5.0
    resume_seconds: float = 1.0
    idle_seconds: float = 85.0
    silent_start_seconds: float = 10.0
    page_size: int = 500
    page_bytes: int = 2 << 20
    stream_lists: bool = False
    list_seconds: float = 60.0
    watch_seconds: tuple[int, int] = (300, 600)
    slice_seconds: float = 0.003
    breaks_before_relist: int = 3


@frozen
class Collection:
    """What to list and watch: the path, the content types to accept, and the selectors.

    `namespace` is that of the path, None for all namespaces.
    """

    path: str
    accept: str = "application/json"
    list_accept: str = "application/json"
    selectors: tuple[tuple[str, str], ...] = ()
    namespace: str | None = None


class ReflectorStore(Protocol):
    """What a reflector writes to; `StoreWriter` is one. The namespace is that of the collection."""

    def new_indexer(self) -> Indexer:
        """An empty indexer to collect a full list in."""

    async def replace(self, namespace: str | None, listed: Indexer, version: str) -> None:
        """Replace the objects of the collection by what was listed at this version."""

    async def handle(self, namespace: str | None, event: WatchEvent) -> None:
        """Take in an object that was added, modified or deleted."""

    def bookmark(self, namespace: str | None, version: str) -> None:
        """Note that every change up to this version was handled."""


class ReflectorHealth:
    """Figures of one reflector, for metrics and probes. An error stays until the server answers again."""

    def __init__(self) -> None:
        self.requests = 0
        self.relists: dict[str, int] = {}
        self.last_contact = float("-inf")
        self.last_error: KubeError | None = None

    @property
    def hint(self) -> str:
        """What to do about the last error, if that is known; else empty."""
        return _NOT_SERVED if isinstance(self.last_error, NotFoundError) else ""

    @property
    def trouble(self) -> str:
        """The last error, and what to do about it; empty if the reflector works."""
        error = "" if self.last_error is None else str(self.last_error)
        return f"{error} ({self.hint})" if self.hint else error


class _SilentStartError(Exception):
    """The server answers, but never ends the initial events: it ignores `sendInitialEvents`."""


@frozen
class Reflector:
    """Copies one collection into a store."""

    wire: Wire
    collection: Collection
    store: ReflectorStore
    settings: ReflectorSettings = field(factory=ReflectorSettings)
    random: Random = field(factory=Random)
    health: ReflectorHealth = field(factory=ReflectorHealth)

    async def run(self) -> None:
        """List and watch until cancelled."""
        await _Run(self).forever()


class _Run:
    """The state of one run: the version that it has reached, and why it must list."""

    def __init__(self, reflector: Reflector) -> None:
        self._wire = reflector.wire
        self._collection = reflector.collection
        self._store = reflector.store
        self._settings = reflector.settings
        self._random = reflector.random
        self._health = reflector.health
        self._backoff = Backoff(reflector.settings.backoff, reflector.random)
        self._version = ""
        self._relist_cause: str | None = "start"
        self._progress = 0
        # When a stream was opened that continued from a version; streaming a list is not watching.
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
                # Its traceback would keep alive the objects that were listed before it.
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
                self._version = ""  # even a list "not older than" this version has expired
            self._relist_cause = self._relist_cause or "expired"
        elif isinstance(error, TooLargeResourceVersionError):
            # The server's versions are below ours: it was restored from a backup.
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
        """List and go on watching."""
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
        listed = self._store.new_indexer()
        collecting = True
        moved = -math.inf
        with ExitStack() as relaxation:
            relaxation.enter_context(relaxed_collector())
            try:
                async with asyncio.timeout(None) as silence:

                    async def handle(event: WatchEvent) -> None:
                        nonlocal collecting
                        if not collecting:
                            await self._handle(event)
                        elif event.ends_initial_events:
                            collecting = False
                            silence.reschedule(None)
                            await self._store.replace(self._collection.namespace, listed, event.resource_version)
                            self._synced(event.resource_version)
                            relaxation.close()
                        elif event.type != "BOOKMARK":
                            # Initial objects come in any order: their versions are no place to resume from.
                            _put(listed, event.raw, event.size, gone=event.type == "DELETED")

                    def contact() -> None:
                        # Moving a timer costs as much as reading a chunk, so it is moved once in a while.
                        nonlocal moved
                        now = loop.time()
                        if collecting and now - moved > _TIMER_SECONDS:
                            moved = now
                            silence.reschedule(now + self._settings.silent_start_seconds)

                    await self._follow(
                        {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}, handle, contact
                    )
            except TimeoutError:
                raise _SilentStartError from None

    async def _page_list(self) -> None:
        listed, version = self._store.new_indexer(), ""
        size = PageSize(self._settings.page_size, self._settings.page_bytes)
        try:
            async with PagesAhead(self._list, size) as pages:
                async for page in pages:
                    version = page.version
                    await self._collect_page(listed, page)
        except ExpiredError:
            if not version:
                raise
            version = ""
        if not version:
            # The continue token expired. One request for everything cannot.
            listed, page = self._store.new_indexer(), read_page(await self._list({}))
            version = page.version
            await self._collect_page(listed, page)
        await self._store.replace(self._collection.namespace, listed, version)
        self._synced(version)

    async def _collect_page(self, listed: Indexer, page: Page) -> None:
        loop = asyncio.get_running_loop()
        slice_end = loop.time() + self._settings.slice_seconds
        for raw, size in page.items:
            _put(listed, raw, size)
            if loop.time() > slice_end:
                await asyncio.sleep(0)
                slice_end = loop.time() + self._settings.slice_seconds

    async def _list(self, params: dict[str, str]) -> Response:
        self._health.requests += 1
        request = Request(
            "GET",
            self._collection.path,
            params=[*params.items(), *self._collection.selectors],
            accept=self._collection.list_accept,
            timeout=self._settings.list_seconds,
        )
        response = await self._wire.send(request)
        self._contact()
        return response

    async def _watch(self) -> None:
        await self._follow({}, self._handle, lambda: None)

    async def _handle(self, event: WatchEvent) -> None:
        if event.type != "BOOKMARK":
            await self._store.handle(self._collection.namespace, event)
        elif event.resource_version:
            self._store.bookmark(self._collection.namespace, event.resource_version)
        if event.resource_version:
            self._version = event.resource_version
        self._progress += 1
        self._breaks = 0

    async def _follow(
        self, extra: dict[str, str], handle: Callable[[WatchEvent], Awaitable[None]], contact: Callable[[], None]
    ) -> None:
        """Open a watch at the current version and handle its events, yielding to the loop every few milliseconds."""
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


def _put(listed: Indexer, raw: dict[str, Any], size: int, *, gone: bool = False) -> None:
    try:
        entry = listed.entry(raw, size)
    except ValueError as error:
        _LOG.warning("ignoring object without a name", extra={"error": str(error)})
        return
    if gone:
        listed.drop(entry.key)
    else:
        listed.put(entry)
