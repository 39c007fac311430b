"""A recorder of every change during a run. It watches the API server directly, independent of proxy and operator."""

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
from gpuruntime.testing.crashing.world import Event, EventType, ObjectRef, World
from gpuruntime.testing.faults.tracked_sockets import TrackedSockets

__all__ = ["ChangeRecorder", "RecordingError", "recording_changes"]

_RECONNECT_SECONDS = 0.1
_TIMEOUT_SECONDS = 30.0
# What the API server answers, not always in JSON, while it opens the storage of a kind that was just established.
_BUSY = frozenset({429, 503})
_LONGEST_LINE = 16 * 1024 * 1024
_TYPES: Mapping[str, EventType] = {"ADDED": "ADDED", "MODIFIED": "MODIFIED", "DELETED": "DELETED"}


class RecordingError(Exception):
    """The recorder may have missed a change: the API server refused or broke off a list or a watch."""


class ChangeRecorder:
    """Holds the current objects of a run and all events so far; announces each event on `changes`.

    A request that the server is too busy for is retried for `timeout` seconds. Any other error status raises
    RecordingError at once.
    """

    def __init__(
        self,
        session: ClientSession,
        kinds: Sequence[ResourceKind],
        namespaces: Mapping[str, str],
        changes: ChangeSignal,
        *,
        timeout: float = _TIMEOUT_SECONDS,
    ) -> None:
        self._session = session
        self._streams = [(kind, namespace) for kind in kinds for namespace in namespaces.values()]
        self._changes = changes
        self._timeout = timeout
        self._objects: dict[ObjectRef, Mapping[str, Any]] = {}
        self.namespaces = namespaces
        self.start = World(namespaces)
        self.events: list[Event] = []
        self.last_event = float("-inf")

    @property
    def world(self) -> World:
        """The objects as of the last event received."""
        return World(self.namespaces, dict(self._objects))

    async def until(self, condition: Callable[[World], bool]) -> None:
        await self._changes.until(lambda: condition(self.world))

    async def watch(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """List, then start the watches: later changes are recorded. The tasks run until they are cancelled."""
        versions = {stream: await self._list(*stream) for stream in self._streams}
        for items, _ in versions.values():
            self._objects |= items
        self.start = self.world
        return [group.create_task(self._follow(*stream, versions[stream][1])) for stream in self._streams]

    async def catch_up(self) -> World:
        """List the current objects, and wait until the watches have delivered all of them.

        Caveat: the events of an object that was created and deleted before this call may still be outstanding.
        """
        now: dict[ObjectRef, Mapping[str, Any]] = {}
        for kind, namespace in self._streams:
            items, version = await self._list(kind, namespace)
            now |= items
            await self._changes.until(partial(self._has_caught_up, items, int(version), (kind, namespace)))
        return World(self.namespaces, now)

    def _has_caught_up(
        self, items: Mapping[ObjectRef, Mapping[str, Any]], version: int, stream: tuple[ResourceKind, str]
    ) -> bool:
        known = {ref: _version(obj) for ref, obj in self._objects.items() if ref[:2] == stream}
        return all(known.get(ref, 0) >= _version(obj) for ref, obj in items.items()) and all(
            ref in items or seen > version for ref, seen in known.items()
        )

    async def _list(self, kind: ResourceKind, namespace: str) -> tuple[dict[ObjectRef, Mapping[str, Any]], str]:
        async with self._get(f"cannot list {kind} in {namespace}", kind.path(namespace), {}) as response:
            body = await response.json()
        whole = ({"apiVersion": kind.api_version, "kind": kind.kind, **item} for item in body["items"])
        items: dict[ObjectRef, Mapping[str, Any]] = {
            ObjectRef(kind, namespace, item["metadata"]["name"]): item for item in whole
        }
        return items, body["metadata"]["resourceVersion"]

    async def _follow(self, kind: ResourceKind, namespace: str, version: str) -> None:
        while True:
            query = {"watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true"}
            problem = f"cannot watch {kind} in {namespace}"
            try:
                async with self._get(problem, kind.path(namespace), query) as response:
                    async for line in response.content:
                        event = json.loads(line)
                        if event["type"] == "ERROR":
                            raise RecordingError(f"the watch of {kind} in {namespace} failed: {event['object']}")
                        version = event["object"]["metadata"]["resourceVersion"]
                        if event["type"] in _TYPES:
                            self._record(_TYPES[event["type"]], kind, namespace, event["object"])
            except (ClientConnectionError, ClientPayloadError):
                await asyncio.sleep(_RECONNECT_SECONDS)

    @asynccontextmanager
    async def _get(self, problem: str, path: str, query: Mapping[str, str]) -> AsyncIterator[ClientResponse]:
        """The response with status 200; retried while the server is busy."""
        deadline = asyncio.get_running_loop().time() + self._timeout
        while True:
            async with self._session.get(path, params=query) as response:
                if response.status == 200:
                    yield response
                    return
                is_over = asyncio.get_running_loop().time() >= deadline
                if response.status not in _BUSY or is_over:
                    hint = "is the kind served?" if response.status == 404 else (await response.text())[:200]
                    raise RecordingError(f"{problem}: HTTP {response.status}; {hint}")
            await asyncio.sleep(_RECONNECT_SECONDS)

    def _record(self, event_type: EventType, kind: ResourceKind, namespace: str, obj: Mapping[str, Any]) -> None:
        ref = ObjectRef(kind, namespace, obj["metadata"]["name"])
        if event_type == "DELETED":
            self._objects.pop(ref, None)
        else:
            self._objects[ref] = obj
        self.events.append(Event(_version(obj), event_type, ref, obj))
        self.last_event = asyncio.get_running_loop().time()
        self._changes.announce()


@asynccontextmanager
async def recording_changes(
    access: ClusterAccess, kinds: Sequence[ResourceKind], namespaces: Mapping[str, str], changes: ChangeSignal
) -> AsyncIterator[ChangeRecorder]:
    """A recorder with the administrator's permissions that runs for the length of the block."""
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
            headers={"Accept": "application/json", "User-Agent": "gpuruntime-testing-recorder"},
        )
        await stack.enter_async_context(session)
        recorder = ChangeRecorder(session, kinds, namespaces, changes)
        group = await stack.enter_async_context(asyncio.TaskGroup())
        watches = await recorder.watch(group)
        yield recorder
        for watch in watches:
            watch.cancel()


def _version(obj: Mapping[str, Any]) -> int:
    return int(obj["metadata"]["resourceVersion"])
