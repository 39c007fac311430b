"""A wire that plays a script, and what a reflector makes of it in virtual time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import orjson
import pytest
from attrs import define, field
from multidict import CIMultiDict, CIMultiDictProxy

from gpuruntime.control.informers.indexer import Indexer
from gpuruntime.control.informers.indexes import Index
from gpuruntime.control.informers.reflector import Collection, Reflector, ReflectorSettings
from gpuruntime.control.informers.storage import Projected
from gpuruntime.kube.errors import KubeError, error_from_watch_status
from gpuruntime.kube.transport.request import Request
from gpuruntime.kube.transport.response import Response
from gpuruntime.kube.watch_events import WatchEvent
from gpuruntime.meta.identity import ResourceKind
from gpuruntime.testing.virtual_time import run_virtual

__all__ = [
    "GONE",
    "Notes",
    "ScriptedWire",
    "Step",
    "error_line",
    "event",
    "follow",
    "listing",
    "status",
    "streamed",
    "times",
]

KIND = ResourceKind("", "v1", "Pod", "pods", namespaced=True)

Step = bytes | float | KubeError
"""A chunk that arrives, seconds that pass, an error that ends it."""


def status(code: int, reason: str = "", **details: Any) -> KubeError:
    return error_from_watch_status({"kind": "Status", "code": code, "reason": reason, "details": details})


GONE = status(410, "Expired")


def event(kind: str, name: str = "", version: int = 0, **metadata: Any) -> bytes:
    body = {"metadata": {"name": name, "namespace": "a", "resourceVersion": str(version), **metadata}}
    return orjson.dumps({"type": kind, "object": body}) + b"\n"


def error_line(code: int, reason: str) -> bytes:
    """An error in the middle of a watch."""
    return orjson.dumps({"type": "ERROR", "object": {"kind": "Status", "code": code, "reason": reason}}) + b"\n"


def streamed(version: int, *names: str) -> bytes:
    """A streamed list: objects, and the bookmark that ends it."""
    objects = [event("ADDED", name, 1) for name in names]
    return b"".join([*objects, event("BOOKMARK", version=version, annotations={"k8s.io/initial-events-end": "true"})])


def listing(version: int, *names: str, token: str = "") -> bytes:
    """A page; with a token there are more."""
    items = [{"metadata": {"name": name, "namespace": "a", "resourceVersion": "1"}} for name in names]
    return orjson.dumps(
        {"kind": "PodList", "metadata": {"resourceVersion": str(version), "continue": token}, "items": items}
    )


@define
class ScriptedWire:
    """Plays one script a request, the last one for ever, and notes when it was asked what.

    Lists and streams have scripts of their own.
    """

    lists: list[list[Step]] = field(factory=list)
    streams: list[list[Step]] = field(factory=list)
    asked: list[tuple[float, dict[str, str]]] = field(factory=list)

    async def send(self, request: Request) -> Response:
        self._note(request)
        body = b"".join([chunk async for chunk in _play(_next(self.lists))])
        return Response(200, CIMultiDictProxy(CIMultiDict()), body, "GET")

    @asynccontextmanager
    async def stream(self, request: Request, *, idle_timeout: float) -> AsyncIterator[AsyncIterator[bytes]]:
        assert idle_timeout > 0
        self._note(request)
        script = _next(self.streams)
        if script and isinstance(script[0], KubeError):
            raise script[0]
        yield _play(script)

    def _note(self, request: Request) -> None:
        assert str(request) == "GET /api/v1/pods"
        self.asked.append((asyncio.get_running_loop().time(), dict(request.params)))


def _next(scripts: list[list[Step]]) -> list[Step]:
    return scripts.pop(0) if len(scripts) > 1 else scripts[0]


async def _play(script: list[Step]) -> AsyncIterator[bytes]:
    for step in script:
        if isinstance(step, bytes):
            yield step
        elif isinstance(step, KubeError):
            raise step
        else:
            await asyncio.sleep(step)


@define
class Notes:
    """A store that notes all calls."""

    calls: list[str] = field(factory=list)

    def new_indexer(self) -> Indexer:
        indexes: tuple[Index, ...] = ()
        return Indexer(Projected(KIND, lambda raw: raw["metadata"]["name"]), indexes)

    async def replace(self, namespace: str | None, listed: Indexer, version: str) -> None:
        assert namespace is None
        self.calls.append(f"replace {' '.join(sorted(key.name for key in listed.entries))} at {version}")

    async def handle(self, namespace: str | None, event: WatchEvent) -> None:
        assert namespace is None
        self.calls.append(f"{event.type} {event.raw['metadata']['name']}")

    def bookmark(self, namespace: str | None, version: str) -> None:
        assert namespace is None
        self.calls.append(f"bookmark {version}")


def follow(wire: ScriptedWire, seconds: float, settings: ReflectorSettings | None = None) -> tuple[Notes, Reflector]:
    """Run a reflector for some seconds; returns what it wrote."""
    notes = Notes()

    async def story() -> Reflector:
        reflector = Reflector(
            wire, Collection("/api/v1/pods", "application/json"), notes, settings or ReflectorSettings(), Random(7)
        )
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(seconds):
                await reflector.run()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return reflector

    return notes, run_virtual(story())


def times(wire: ScriptedWire) -> list[float]:
    return [time for time, _ in wire.asked]
