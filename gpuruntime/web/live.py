"""Following units live, as server-sent events.

::

    reset, added ..., synced     the full state; what was known before is void
    added | modified | deleted   one step of one unit each, in order, with its version as id
    : heard of the cluster ...   a comment every 15 seconds

Whoever comes back with an id (header Last-Event-ID, which browsers send by themselves) is told everything that happened
since, if that is not too long ago, and else the full state. No state is ever followed by an older one, also if the
follower comes back to another replica.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing
from typing import Final

from aiohttp import web
from attrs import frozen

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.roles import Roles
from gpuruntime.service.change_log import ChangeLog
from gpuruntime.service.reading import Reads, is_at_least
from gpuruntime.web.live_events import LiveEvents, heartbeat
from gpuruntime.web.views_units import unit_view

__all__ = ["LiveUnits"]

_HEARTBEAT_SECONDS: Final = 15.0
_STALLED_SECONDS: Final = 30.0
# Whoever may not read any more is cut off after a while; everybody else comes back by itself.
_LONGEST_SECONDS: Final = 3600.0
_CATCH_UP_SECONDS: Final = 3.0
_CHUNK_BYTES: Final = 64 * 1024


@frozen
class _Start:
    """How a stream begins: what is told first, the place in the log to go on from, and what has been seen by then."""

    events: Iterable[bytes]
    place: int
    beyond: str = ""


@frozen
class LiveUnits:
    """Streams of what happens to units."""

    log: ChangeLog[GPUUnit]
    reads: Reads[GPUUnit]
    roles: Roles

    async def stream(
        self, request: web.Request, since: str | None, matches: Callable[[GPUUnit], bool], at_least: str = ""
    ) -> web.StreamResponse:
        """Answer with the units that match, from a version on, until the follower goes or the process stops.

        A full state is not older than `at_least`.

        Raises:
            NotRunningError, KubeError: not now; nothing was answered yet.
        """
        events = LiveEvents(matches, lambda unit: unit_view(unit, self.roles), self.log.can_resume)
        known = request.headers.get("Last-Event-ID") or since
        start = await self._anew(events, at_least) if known is None else await self._start(known, events)
        response = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream; charset=utf-8",
                "Cache-Control": "no-store",
                # Proxies that collect answers would make nothing live of it.
                "X-Accel-Buffering": "no",
            }
        )
        await response.prepare(request)
        if request.method == "HEAD":
            return response
        try:
            async with aclosing(self._chunks(start, events)) as chunks:
                async for chunk in chunks:
                    async with asyncio.timeout(_STALLED_SECONDS):
                        await response.write(chunk)
                    # A follower who reads fast never makes us wait; others want to be served, too.
                    await asyncio.sleep(0)
        except (ConnectionError, TimeoutError):
            # The follower is gone, or does not read: whatever is still on its way is of no use.
            if request.transport is not None:
                request.transport.abort()
        return response

    async def _start(self, since: str, events: LiveEvents[GPUUnit]) -> _Start:
        place = self.log.place_of(since)
        if place is None and self._is_ahead(since) and await self.reads.caught_up(since, _CATCH_UP_SECONDS):
            place = self.log.place_of(since)
        return await self._anew(events, since) if place is None else _Start((), place)

    async def _anew(self, events: LiveEvents[GPUUnit], seen: str) -> _Start:
        """The full state, not older than what the follower has seen."""
        if self._is_ahead(seen) and not await self.reads.caught_up(seen, _CATCH_UP_SECONDS):
            place = self.log.snapshot().place
            items, version = await self.reads.list_live()
            return _Start(events.of_state(items, version), place, version)
        now = self.log.snapshot()
        return _Start(events.of_state(now.items, now.version), now.place)

    def _is_ahead(self, version: str) -> bool:
        """Whether a version is one that we have not come to; another replica may know more than we do."""
        return self.log.can_resume and is_at_least(version, "1") and not is_at_least(self.log.version, version)

    async def _chunks(self, start: _Start, events: LiveEvents[GPUUnit]) -> AsyncGenerator[bytes, None]:
        loop = asyncio.get_running_loop()
        end = loop.time() + _LONGEST_SECONDS
        for chunk in _gathered(start.events):
            yield chunk
        place, beyond = start.place, start.beyond
        while self.log.is_following and loop.time() < end:
            steps = self.log.since(place)
            if steps is None:
                anew = await self._anew(events, beyond)
                place, beyond = anew.place, anew.beyond
                for chunk in _gathered(anew.events):
                    yield chunk
                continue
            place += len(steps)
            for chunk in _gathered(events.of_step(step, beyond) for step in steps):
                yield chunk
            if not steps:
                await self.log.more(place, _HEARTBEAT_SECONDS)
                if self.log.since(place) == ():
                    yield heartbeat(self.reads.age())


def _gathered(events: Iterable[bytes]) -> Iterator[bytes]:
    """The events in few pieces, none of which is much larger than it has to be."""
    chunk = bytearray()
    for event in events:
        chunk += event
        if len(chunk) >= _CHUNK_BYTES:
            yield bytes(chunk)
            chunk.clear()
    if chunk:
        yield bytes(chunk)
