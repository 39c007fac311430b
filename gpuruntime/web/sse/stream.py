"""Watches of objects as server-sent events.

::

    reset, added ..., synced             the full state; it replaces what the client had before
    added | modified | deleted           one change of one object each, in order, with its version as id
    : last response of the API server    a comment every 15 seconds

A client that reconnects with an id (header Last-Event-ID, which browsers send by themselves) gets all changes since
then if the log still has them, else the full state. It never sees an older state than before, also from another
replica. A client that disconnects between `reset` and `synced` has no id any more, and starts over.

Objects of several namespaces come from several watches, whose versions cannot be compared. Then events have no ids, and
a client that names a version gets a full state that is not older.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Final, Generic, TypeVar

from aiohttp import web
from attrs import frozen

from gpuruntime.api.rest.objects import ObjectView
from gpuruntime.endpoints.server.metrics import REQUEST_METRICS
from gpuruntime.meta import EMPTY, ObjectKey, TypedObject
from gpuruntime.service.reads.reader import Reads, is_at_least
from gpuruntime.service.reads.watch_log import Step, WatchLog
from gpuruntime.web.sse.connection import StalledError, StreamConnection
from gpuruntime.web.sse.events import EventEncoder, heartbeat
from gpuruntime.web.sse.view_cache import ViewCache

__all__ = ["ObjectStreams"]

K = TypeVar("K", bound=TypedObject)
_LOG = logging.getLogger(__name__)
_HEARTBEAT_SECONDS: Final = 15.0
_STALLED_SECONDS: Final = 30.0
_STALLED: Final = "stalled"
# A client whose token was revoked is disconnected after this time; all others reconnect by themselves.
_LONGEST_SECONDS: Final = 3600.0
_CATCH_UP_SECONDS: Final = 3.0
_CHUNK_BYTES: Final = 32 * 1024
_FILTERED_AT_ONCE: Final = 512


@frozen
class _Start(Generic[K]):
    """How a stream begins.

    Args:
        position: the position in the log to continue from.
        state: the full state to send first; None if the client resumes.
        version: the version of that state.
        seen: the client has seen all changes up to this version.
        newer: objects that the client has seen in a newer version than that.
    """

    position: int
    state: Sequence[K] | None = None
    version: str = ""
    seen: str = ""
    newer: Mapping[ObjectKey, str] = EMPTY

    def seen_of(self, step: Step[K]) -> str:
        """The version up to which the client has seen the object of a change."""
        found = step.before if step.after is None else step.after
        return self.seen if found is None else self.newer.get(found.key, self.seen)


class ObjectStreams(Generic[K]):
    """Streams the changes of the objects of one kind to clients.

    Guarantees:
        A version of an object is encoded once for all clients. Clients take turns, a few kilobytes at a time, so that
        other requests are served in between. A client that does not read is disconnected and counted.
    """

    def __init__(self, log: WatchLog[K], reads: Reads[K], view: Callable[[K], ObjectView]) -> None:
        self._log = log
        self._reads = reads
        self._views = ViewCache(view)

    async def serve(
        self,
        request: web.Request,
        since: str | None,
        matches: Callable[[K], bool],
        at_least: str = "",
        *,
        unmasked: bool = False,
    ) -> web.StreamResponse:
        """Respond with the changes of matching objects after a version, until the client leaves or the process stops.

        A full state is older than neither that version nor `at_least`. Values that may be secrets are masked, unless
        `unmasked`.

        Raises:
            NotRunningError, KubeError: watches are not available now; no response has begun.
        """
        await self._log.turns.next()
        data = self._views.unmasked if unmasked else self._views.masked
        encoder = EventEncoder(matches, data, self._log.can_resume)
        start = await self._start(request.headers.get("Last-Event-ID") or since or "", at_least)
        response = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream; charset=utf-8",
                "Cache-Control": "no-store",
                # Keeps nginx from buffering the stream.
                "X-Accel-Buffering": "no",
            }
        )
        await response.prepare(request)
        if request.method == "HEAD":
            return response
        connection = StreamConnection(request, response, _STALLED_SECONDS)
        try:
            async with aclosing(self._chunks(start, encoder, connection)) as chunks:
                async for chunk in chunks:
                    await connection.send(chunk)
        except ConnectionError:
            connection.close()
        except StalledError:
            fields = {"reason": _STALLED, "remote": request.remote, "buffered_bytes": connection.buffered}
            _LOG.info("event stream dropped", extra=fields)
            if REQUEST_METRICS in request.app:
                request.app[REQUEST_METRICS].dropped(_STALLED)
            await connection.drop(f"dropped: nothing was read for {_STALLED_SECONDS:g} s")
        return response

    async def _start(self, since: str, at_least: str) -> _Start[K]:
        if self._log.position_of(since) is None and not await self._caught_up(since, at_least):
            return await self._live_state()
        # The version may come from a replica that was ahead; by now this one may have caught up.
        position = self._log.position_of(since)
        return self._cached_state() if position is None else _Start(position)

    async def _restart(self, seen: str) -> _Start[K]:
        """The full state, not older than what the client has seen."""
        return self._cached_state() if await self._caught_up(seen) else await self._live_state()

    def _cached_state(self) -> _Start[K]:
        """The full state from the cache."""
        now = self._log.snapshot()
        return _Start(now.position, now.items, now.version)

    async def _live_state(self) -> _Start[K]:
        """The full state from a live read."""
        position = self._log.snapshot().position
        items, version = await self._reads.list_live()
        # Namespaces are listed one after the other, and the version is that of the first list.
        found = ((item.key, item.metadata.resource_version) for item in items)
        newer = {key: state for key, state in found if not is_at_least(version, state)}
        return _Start(position, items, version, version, newer)

    async def _caught_up(self, *versions: str) -> bool:
        """Whether the cache shows these versions now or soon; texts that are not versions are ignored.

        With several watches there is no waiting: one of them may receive nothing for a minute.
        """
        patience = _CATCH_UP_SECONDS if self._log.can_resume else 0.0
        for version in versions:
            if is_at_least(version, "1") and not await self._reads.caught_up(version, patience):
                return False
        return True

    async def _chunks(
        self, start: _Start[K], encoder: EventEncoder[K], connection: StreamConnection
    ) -> AsyncGenerator[bytes, None]:
        loop = asyncio.get_running_loop()
        end = loop.time() + _LONGEST_SECONDS
        async for chunk in self._state_chunks(start, encoder):
            yield chunk
        position = start.position
        while self._log.is_following and loop.time() < end:
            steps = self._log.since(position)
            if steps is None:
                start = await self._restart(start.seen)
                position = start.position
                async for chunk in self._state_chunks(start, encoder):
                    yield chunk
                continue
            position += len(steps)
            for chunk in _in_chunks(encoder.of_step(step, start.seen_of(step)) for step in steps):
                yield chunk
                await self._log.turns.next()
            if not steps:
                await self._log.more(position, _HEARTBEAT_SECONDS)
                if self._log.since(position) == ():
                    if connection.buffered:
                        raise StalledError
                    yield heartbeat(self._reads.age())

    async def _state_chunks(self, start: _Start[K], encoder: EventEncoder[K]) -> AsyncGenerator[bytes, None]:
        """The full state that a stream begins with, if any; it waits for its turn before each chunk."""
        if start.state is None:
            return
        matching: list[K] = []
        for first in range(0, len(start.state), _FILTERED_AT_ONCE):
            matching += filter(encoder.matches, start.state[first : first + _FILTERED_AT_ONCE])
            await self._log.turns.next()
        for chunk in _in_chunks(encoder.of_state(matching, start.version)):
            yield chunk
            await self._log.turns.next()


def _in_chunks(events: Iterable[bytes]) -> Iterator[bytes]:
    """The events joined to chunks of about `_CHUNK_BYTES`."""
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
