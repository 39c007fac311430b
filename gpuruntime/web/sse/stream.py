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
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Final

from aiohttp import web
from attrs import frozen

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.meta import EMPTY, ObjectKey
from gpuruntime.service.reads.reader import Reads, is_at_least
from gpuruntime.service.reads.watch_log import ChangeLog, Step
from gpuruntime.web.server.metrics import TRAFFIC
from gpuruntime.web.sse.connection import Connection, StalledError
from gpuruntime.web.sse.events import LiveEvents, heartbeat
from gpuruntime.web.sse.views import SharedViews

__all__ = ["LiveUnits"]

_LOG = logging.getLogger(__name__)
_HEARTBEAT_SECONDS: Final = 15.0
_STALLED_SECONDS: Final = 30.0
_STALLED: Final = "stalled"
# Whoever may not read any more is cut off after a while; everybody else comes back by itself.
_LONGEST_SECONDS: Final = 3600.0
_CATCH_UP_SECONDS: Final = 3.0
_CHUNK_BYTES: Final = 32 * 1024
_LOOKED_AT_ONCE: Final = 512


@frozen
class _Start:
    """How a stream begins: the full state and its version, if there is one to be told, the place in the log to go on
    from, and what has been seen by then: everything up to a version, and some units in a newer state.
    """

    place: int
    state: Sequence[GPUUnit] | None = None
    version: str = ""
    beyond: str = ""
    newer: Mapping[ObjectKey, str] = EMPTY

    def seen_of(self, step: Step[GPUUnit]) -> str:
        """Up to which version the unit of a step has been seen."""
        unit = step.before if step.after is None else step.after
        return self.beyond if unit is None else self.newer.get(unit.key, self.beyond)


class LiveUnits:
    """Streams of what happens to units.

    Guarantees:
        A state of a unit is written once for all who follow it. Those who follow get their turn after each other, a
        few kilobytes at a time, so others are served meanwhile. One who does not read is dropped, and counted.
    """

    def __init__(self, log: ChangeLog[GPUUnit], reads: Reads[GPUUnit], namespaces: Namespaces) -> None:
        self._log = log
        self._reads = reads
        self._views = SharedViews(namespaces)

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
        await self._log.turns.next()
        events = LiveEvents(matches, self._views.clear if clear else self._views.masked, self._log.can_resume)
        start = await self._start(request.headers.get("Last-Event-ID") or since or "", at_least)
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
        connection = Connection(request, response, _STALLED_SECONDS)
        try:
            async with aclosing(self._chunks(start, events, connection)) as chunks:
                async for chunk in chunks:
                    await connection.send(chunk)
        except ConnectionError:
            connection.end()
        except StalledError:
            about = {"reason": _STALLED, "remote": request.remote, "waiting_bytes": connection.waiting}
            _LOG.info("a follower was dropped", extra=about)
            if TRAFFIC in request.app:
                request.app[TRAFFIC].dropped(_STALLED)
            await connection.drop(f"dropped: nothing was read for {_STALLED_SECONDS:g} s")
        return response

    async def _start(self, since: str, at_least: str) -> _Start:
        if self._log.place_of(since) is None and not await self._shows(since, at_least):
            return await self._live()
        # Another replica may have known more than we did; by now we may have come to that.
        place = self._log.place_of(since)
        return self._cached() if place is None else _Start(place)

    async def _anew(self, seen: str) -> _Start:
        """The full state, not older than what the follower has seen."""
        return self._cached() if await self._shows(seen) else await self._live()

    def _cached(self) -> _Start:
        """The full state as it is known here."""
        now = self._log.snapshot()
        return _Start(now.place, now.items, now.version)

    async def _live(self) -> _Start:
        """The full state as the server has it now."""
        place = self._log.snapshot().place
        units, version = await self._reads.list_live()
        # Of several namespaces one is read after the other, and the version is that of the first.
        found = ((unit.key, unit.metadata.resource_version) for unit in units)
        newer = {key: state for key, state in found if not is_at_least(version, state)}
        return _Start(place, units, version, version, newer)

    async def _shows(self, *versions: str) -> bool:
        """Whether the cache has come to these versions, or comes to them soon; what is no version does not count.

        Of several watches one may be quiet for a minute: for that nobody waits.
        """
        patience = _CATCH_UP_SECONDS if self._log.can_resume else 0.0
        for version in versions:
            if is_at_least(version, "1") and not await self._reads.caught_up(version, patience):
                return False
        return True

    async def _chunks(
        self, start: _Start, events: LiveEvents[GPUUnit], connection: Connection
    ) -> AsyncGenerator[bytes, None]:
        loop = asyncio.get_running_loop()
        end = loop.time() + _LONGEST_SECONDS
        async for chunk in self._state(start, events):
            yield chunk
        place = start.place
        while self._log.is_following and loop.time() < end:
            steps = self._log.since(place)
            if steps is None:
                start = await self._anew(start.beyond)
                place = start.place
                async for chunk in self._state(start, events):
                    yield chunk
                continue
            place += len(steps)
            for chunk in _gathered(events.of_step(step, start.seen_of(step)) for step in steps):
                yield chunk
                await self._log.turns.next()
            if not steps:
                await self._log.more(place, _HEARTBEAT_SECONDS)
                if self._log.since(place) == ():
                    if connection.waiting:
                        raise StalledError
                    yield heartbeat(self._reads.age())

    async def _state(self, start: _Start, events: LiveEvents[GPUUnit]) -> AsyncGenerator[bytes, None]:
        """The full state that a stream begins with, if it does, in pieces with a turn for each."""
        if start.state is None:
            return
        matching: list[GPUUnit] = []
        for first in range(0, len(start.state), _LOOKED_AT_ONCE):
            matching += filter(events.matches, start.state[first : first + _LOOKED_AT_ONCE])
            await self._log.turns.next()
        for chunk in _gathered(events.of_state(matching, start.version)):
            yield chunk
            await self._log.turns.next()


def _gathered(events: Iterable[bytes]) -> Iterator[bytes]:
    """The events in few pieces, none of which is much larger than it has to be."""
    chunk: list[bytes] = []
    size = 0
    for event in events:
        chunk.append(event)
        size += len(event)
        if size >= _CHUNK_BYTES:
            yield b"".join(chunk)
            chunk, size = [], 0
    if size:
        yield b"".join(chunk)
