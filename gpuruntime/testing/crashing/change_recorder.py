"""Somebody who sees every change during a run, past the proxy, and has nothing to do with the operator."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

from aiohttp import (
    ClientConnectionError,
    ClientPayloadError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    TCPConnector,
)

from gpuruntime.meta import ResourceKind
from gpuruntime.testing.change_signal import ChangeSignal
from gpuruntime.testing.cluster.access import ClusterAccess
from gpuruntime.testing.crashing.world import Event, EventType, Place, World
from gpuruntime.testing.faults.tracked_sockets import TrackedSockets

__all__ = ["ChangeRecorder", "RecordingError", "recording_changes"]

_RECONNECT_SECONDS = 0.1
_PATIENCE_SECONDS = 30.0
# What a server says, not always in JSON, while it opens the storage of a kind that was just established.
_BUSY = frozenset({429, 503})
_LONGEST_LINE = 16 * 1024 * 1024
_TYPES: Mapping[str, EventType] = {"ADDED": "ADDED", "MODIFIED": "MODIFIED", "DELETED": "DELETED"}


class RecordingError(Exception):
    """The API server did not let the witness see everything."""


class ChangeRecorder:
    """Knows the world of one run and all that has happened in it; `changes` is told of each event.

    A server that is busy is asked again for `patience` seconds; any other refusal is a RecordingError at once.
    """

    def __init__(
        self,
        session: ClientSession,
        kinds: Sequence[ResourceKind],
        namespaces: Mapping[str, str],
        changes: ChangeSignal,
        *,
        patience: float = _PATIENCE_SECONDS,
    ) -> None:
        self._session = session
        self._streams = [(kind, namespace) for kind in kinds for namespace in namespaces.values()]
        self._changes = changes
        self._patience = patience
        self._objects: dict[Place, Mapping[str, Any]] = {}
        self.namespaces = namespaces
        self.start = World(namespaces)
        self.events: list[Event] = []
        self.last_event = float("-inf")

    @property
    def world(self) -> World:
        """As far as it is known now."""
        return World(self.namespaces, dict(self._objects))

    async def until(self, condition: Callable[[World], bool]) -> None:
        await self._changes.until(lambda: condition(self.world))

    async def watch(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Begin to see: returns when no change can be missed any more; the tasks run until they are cancelled."""
        versions = {stream: await self._list(*stream) for stream in self._streams}
        for items, _ in versions.values():
            self._objects |= items
        self.start = self.world
        return [group.create_task(self._follow(*stream, versions[stream][1])) for stream in self._streams]

    async def catch_up(self) -> World:
        """The world as it is in the API server now; returns when all of it has been seen.

        Caveat: an object that came and went before now may be still to be seen.
        """
        now: dict[Place, Mapping[str, Any]] = {}
        for kind, namespace in self._streams:
            items, version = await self._list(kind, namespace)
            now |= items
            await self._changes.until(partial(self._has_seen, items, int(version), (kind, namespace)))
        return World(self.namespaces, now)

    def _has_seen(
        self, items: Mapping[Place, Mapping[str, Any]], version: int, stream: tuple[ResourceKind, str]
    ) -> bool:
        known = {place: _version(obj) for place, obj in self._objects.items() if place[:2] == stream}
        return all(known.get(place, 0) >= _version(obj) for place, obj in items.items()) and all(
            place in items or seen > version for place, seen in known.items()
        )

    async def _list(self, kind: ResourceKind, namespace: str) -> tuple[dict[Place, Mapping[str, Any]], str]:
        async with self._granted(f"cannot list {kind} in {namespace}", kind.path(namespace), {}) as response:
            body = await response.json()
        whole = ({"apiVersion": kind.api_version, "kind": kind.kind, **item} for item in body["items"])
        items: dict[Place, Mapping[str, Any]] = {
            Place(kind, namespace, item["metadata"]["name"]): item for item in whole
        }
        return items, body["metadata"]["resourceVersion"]

    async def _follow(self, kind: ResourceKind, namespace: str, version: str) -> None:
        while True:
            query = {"watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true"}
            refusal = f"cannot watch {kind} in {namespace}"
            try:
                async with self._granted(refusal, kind.path(namespace), query) as response:
                    async for line in response.content:
                        event = json.loads(line)
                        if event["type"] == "ERROR":
                            raise RecordingError(f"watch of {kind} in {namespace} broke: {event['object']}")
                        version = event["object"]["metadata"]["resourceVersion"]
                        if event["type"] in _TYPES:
                            self._note(_TYPES[event["type"]], kind, namespace, event["object"])
            except (ClientConnectionError, ClientPayloadError):
                await asyncio.sleep(_RECONNECT_SECONDS)

    @asynccontextmanager
    async def _granted(self, refusal: str, path: str, query: Mapping[str, str]) -> AsyncIterator[ClientResponse]:
        """The answer to a request that the server has not refused."""
        deadline = asyncio.get_running_loop().time() + self._patience
        while True:
            async with self._session.get(path, params=query) as response:
                if response.status == 200:
                    yield response
                    return
                is_over = asyncio.get_running_loop().time() >= deadline
                if response.status not in _BUSY or is_over:
                    hint = "is the kind served?" if response.status == 404 else (await response.text())[:200]
                    raise RecordingError(f"{refusal}: HTTP {response.status}; {hint}")
            await asyncio.sleep(_RECONNECT_SECONDS)

    def _note(self, kind_of_event: EventType, kind: ResourceKind, namespace: str, obj: Mapping[str, Any]) -> None:
        place = Place(kind, namespace, obj["metadata"]["name"])
        if kind_of_event == "DELETED":
            self._objects.pop(place, None)
        else:
            self._objects[place] = obj
        self.events.append(Event(_version(obj), kind_of_event, place, obj))
        self.last_event = asyncio.get_running_loop().time()
        self._changes.announce()


@asynccontextmanager
async def recording_changes(
    access: ClusterAccess, kinds: Sequence[ResourceKind], namespaces: Mapping[str, str], changes: ChangeSignal
) -> AsyncIterator[ChangeRecorder]:
    """A witness with the administrator's rights, at work for the length of the block."""
    tls = ssl.create_default_context(cafile=str(access.authority))
    tls.load_cert_chain(access.certificate, access.key)
    sockets = TrackedSockets()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(sockets.close)
        session = ClientSession(
            access.server,
            connector=TCPConnector(ssl=tls, limit=0, socket_factory=sockets.create),
            timeout=ClientTimeout(total=None),
            read_bufsize=_LONGEST_LINE,
            headers={"Accept": "application/json", "User-Agent": "gpuruntime-testing-witness"},
        )
        await stack.enter_async_context(session)
        witness = ChangeRecorder(session, kinds, namespaces, changes)
        group = await stack.enter_async_context(asyncio.TaskGroup())
        watches = await witness.watch(group)
        yield witness
        for watch in watches:
            watch.cancel()


def _version(obj: Mapping[str, Any]) -> int:
    return int(obj["metadata"]["resourceVersion"])
