"""Clients of the event stream that disconnect and resume, and the watch of the API server to compare with."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from attrs import define, field, frozen

from e2e.api_callers import CONNECTION_ERRORS, Callers
from gpuruntime.testing import ClusterAccess

__all__ = ["Follower", "Span", "api_server_versions"]

_PAUSE_SECONDS = 0.1
_LONGEST_VISIT = 40


@define
class Span:
    """The versions that a follower received between two resets: of the full state, and of all events after it."""

    start: int
    steps: list[int] = field(factory=list)


class Follower:
    """A client that keeps the state of all active units from the event streams of any replica."""

    def __init__(self, callers: Callers) -> None:
        self.state: dict[str, int] = {}
        self.spans: list[Span] = []
        self.older: list[str] = []
        self.visits = 0
        self._callers = callers
        self._newest: dict[str, int] = {}
        self._last = ""
        self._fresh: dict[str, int] | None = None

    async def follow(self) -> None:
        """Watch until cancelled, for some events on one replica, then for some on another."""
        while True:
            replica = self._callers.random.choice(self._callers.replicas)
            headers = {"Last-Event-ID": self._last} if self._last else {}
            if not headers:
                # Without an event id the server cannot know what this client has seen.
                self._newest.clear()
            patience = aiohttp.ClientTimeout(total=None, sock_read=60)
            url = f"{replica.url}/api/v1/gpu-units?watch=1"
            try:
                async with self._callers.session.get(url, headers=headers, timeout=patience) as response:
                    if response.status == 200:
                        self.visits += 1
                        await self._listen(response)
            except CONNECTION_ERRORS:
                pass
            self._fresh = None
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _listen(self, response: aiohttp.ClientResponse) -> None:
        left = self._callers.random.randrange(1, _LONGEST_VISIT)
        fields: dict[str, str] = {}
        async for line in response.content:
            name, _, text = line.decode().rstrip("\n").partition(":")
            if name:
                fields[name] = text.removeprefix(" ")
            elif "event" in fields:
                # As in browsers: an empty id is valid and resets the last one.
                self._last = fields.get("id", self._last)
                self._handle(fields["event"], fields.get("id", ""), json.loads(fields["data"]))
                fields = {}
                # A visit that ended within a full state would start with it again, for ever.
                left -= self._fresh is None
                if left <= 0:
                    return

    def _handle(self, event: str, event_id: str, data: Any) -> None:
        version = int(event_id or data["resourceVersion"])
        if event == "reset":
            self._fresh = {}
        elif event == "synced":
            self.state, self._fresh = self._fresh or {}, None
            self.spans.append(Span(version))
        else:
            self._apply(event, data["name"], version)

    def _apply(self, event: str, name: str, version: int) -> None:
        is_step = self._fresh is None
        newest = self._newest.get(name, 0)
        if version < newest or (is_step and version == newest):
            self.older.append(f"{event} {name} at {version} after {newest}")
        self._newest[name] = version
        state = self.state if self._fresh is None else self._fresh
        if event == "deleted":
            state.pop(name, None)
        else:
            state[name] = version
        if is_step:
            self.spans[-1].steps.append(version)


@frozen
class _Versions:
    versions: list[int] = field(factory=list)


@asynccontextmanager
async def api_server_versions(access: ClusterAccess, collection: str) -> AsyncIterator[list[int]]:
    """The versions of all events of a collection, in order, from a watch of the API server."""
    seen = _Versions()
    tls = ssl.create_default_context(cafile=str(access.authority))
    tls.load_cert_chain(access.certificate, access.key)
    start = access.admin().get(collection)["metadata"]["resourceVersion"]
    query = {"watch": "1", "resourceVersion": start, "timeoutSeconds": "3600"}
    patience = aiohttp.ClientTimeout(total=None)
    connector = aiohttp.TCPConnector(ssl=tls)
    async with (
        aiohttp.ClientSession(access.server, connector=connector, timeout=patience, read_bufsize=2**20) as session,
        session.get(collection, params=query) as response,
    ):

        async def watch() -> None:
            async for line in response.content:
                seen.versions.append(int(json.loads(line)["object"]["metadata"]["resourceVersion"]))

        watching = asyncio.create_task(watch())
        try:
            yield seen.versions
        finally:
            watching.cancel()
            await asyncio.wait([watching])
