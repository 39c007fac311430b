"""Following units live, as server-sent events.

::

    reset, added ..., synced     the full state; what was known before is void
    added | modified | deleted   one step of one unit each, in order, with its version as id
    : heard of the cluster ...   a comment every 15 seconds

Whoever comes back with an id (header Last-Event-ID, which browsers send by themselves) is told everything that happened
since, if that is not too long ago, and else the full state. No state is ever followed by an older one, also if the
follower comes back to another replica. Who drops within a full state, between `reset` and `synced`, has no id any more
and comes back as a new follower.

Units of several namespaces have several watches, which are not in step: then there are no ids, and whoever names a
version gets a full state that is not older.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing
from typing import Final

from aiohttp import web
from attrs import frozen

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.roles import Roles
from gpuruntime.meta.frozen_mapping import EMPTY
from gpuruntime.meta.identity import ObjectKey
from gpuruntime.service.change_log import ChangeLog, Step
from gpuruntime.service.reading import Reads, is_at_least
from gpuruntime.web.live_events import LiveEvents, heartbeat
from gpuruntime.web.masking import masked
from gpuruntime.web.views_units import UnitView, unit_view

__all__ = ["LiveUnits"]

_HEARTBEAT_SECONDS: Final = 15.0
_STALLED_SECONDS: Final = 30.0
# Whoever may not read any more is cut off after a while; everybody else comes back by itself.
_LONGEST_SECONDS: Final = 3600.0
_CATCH_UP_SECONDS: Final = 3.0
_CHUNK_BYTES: Final = 64 * 1024


@frozen
class _Start:
    """How a stream begins: what is told first, the place in the log to go on from, and what has been seen by then:
    everything up to a version, and some units in a newer state.
    """

    events: Iterable[bytes]
    place: int
    beyond: str = ""
    newer: Mapping[ObjectKey, str] = EMPTY

    def seen_of(self, step: Step[GPUUnit]) -> str:
        """Up to which version the unit of a step has been seen."""
        unit = step.before if step.after is None else step.after
        return self.beyond if unit is None else self.newer.get(unit.key, self.beyond)


@frozen
class LiveUnits:
    """Streams of what happens to units."""

    log: ChangeLog[GPUUnit]
    reads: Reads[GPUUnit]
    roles: Roles

    async def stream(
        self,
        request: web.Request,
        since: str | None,
        matches: Callable[[GPUUnit], bool],
        at_least: str = "",
        *,
        clear: bool = False,
    ) -> web.StreamResponse:
        """Answer with the units that match, from a version on, until the follower goes or the process stops.

        A full state is older than neither that version nor `at_least`. Values that may be secrets are masked unless
        they are asked for in `clear`.

        Raises:
            NotRunningError, KubeError: not now; nothing was answered yet.
        """
        events = LiveEvents(matches, self._clear if clear else self._masked, self.log.can_resume)
        start = await self._start(events, request.headers.get("Last-Event-ID") or since or "", at_least)
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

    def _clear(self, unit: GPUUnit) -> UnitView:
        return unit_view(unit, self.roles)

    def _masked(self, unit: GPUUnit) -> UnitView:
        return masked(unit_view(unit, self.roles))

    async def _start(self, events: LiveEvents[GPUUnit], since: str, at_least: str) -> _Start:
        if self.log.place_of(since) is None and not await self._shows(since, at_least):
            return await self._live(events)
        # Another replica may have known more than we did; by now we may have come to that.
        place = self.log.place_of(since)
        return self._cached(events) if place is None else _Start((), place)

    async def _anew(self, events: LiveEvents[GPUUnit], seen: str) -> _Start:
        """The full state, not older than what the follower has seen."""
        return self._cached(events) if await self._shows(seen) else await self._live(events)

    def _cached(self, events: LiveEvents[GPUUnit]) -> _Start:
        """The full state as it is known here."""
        now = self.log.snapshot()
        return _Start(events.of_state(now.items, now.version), now.place)

    async def _live(self, events: LiveEvents[GPUUnit]) -> _Start:
        """The full state as the server has it now."""
        place = self.log.snapshot().place
        units, version = await self.reads.list_live()
        # Of several namespaces one is read after the other, and the version is that of the first.
        found = ((unit.key, unit.metadata.resource_version) for unit in units)
        newer = {key: state for key, state in found if not is_at_least(version, state)}
        return _Start(events.of_state(units, version), place, version, newer)

    async def _shows(self, *versions: str) -> bool:
        """Whether the cache has come to these versions, or comes to them soon; what is no version does not count.

        Of several watches one may be quiet for a minute: for that nobody waits.
        """
        patience = _CATCH_UP_SECONDS if self.log.can_resume else 0.0
        for version in versions:
            if is_at_least(version, "1") and not await self.reads.caught_up(version, patience):
                return False
        return True

    async def _chunks(self, start: _Start, events: LiveEvents[GPUUnit]) -> AsyncGenerator[bytes, None]:
        loop = asyncio.get_running_loop()
        end = loop.time() + _LONGEST_SECONDS
        for chunk in _gathered(start.events):
            yield chunk
        place = start.place
        while self.log.is_following and loop.time() < end:
            steps = self.log.since(place)
            if steps is None:
                start = await self._anew(events, start.beyond)
                place = start.place
                for chunk in _gathered(start.events):
                    yield chunk
                continue
            place += len(steps)
            for chunk in _gathered(events.of_step(step, start.seen_of(step)) for step in steps):
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
