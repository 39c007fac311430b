"""ConfigMaps in memory behind a wire, versioned as the API server does it, with watches that can be held back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
from attrs import define, field
from multidict import CIMultiDict, CIMultiDictProxy

from gpuruntime.kube.answers import Answer
from gpuruntime.kube.errors import NotFoundError, Status, UnavailableError
from gpuruntime.kube.transport import Params
from gpuruntime.meta.identity import ObjectKey
from gpuruntime.testing.watch_events import WatchEvent, added, deleted, initial_events_end, line_of, modified

__all__ = ["MapServer", "answer"]

_ROOT = "/api/v1/"


def answer(value: Any) -> Answer:
    return Answer(200, CIMultiDictProxy(CIMultiDict()), orjson.dumps(value))


@define
class MapServer:
    """A wire to the server and the server at once.

    `asked` has all requests but watches. `lost` is how many answers to writes get lost from now on, `slow` how many
    seconds an answer takes to arrive.
    """

    asked: list[tuple[str, str]] = field(factory=list)
    lost: int = 0
    slow: float = 0.0
    _objects: dict[ObjectKey, dict[str, Any]] = field(factory=dict)
    _version: int = 100
    _watches: list[tuple[str, asyncio.Queue[WatchEvent]]] = field(factory=list)
    _flowing: asyncio.Event = field(factory=asyncio.Event)
    _pages: dict[str, list[dict[str, Any]]] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self._flowing.set()

    def hold(self) -> None:
        """Keep the events of watches back."""
        self._flowing.clear()

    def release(self) -> None:
        self._flowing.set()

    def put(self, name: str, namespace: str = "a", **fields: Any) -> dict[str, Any]:
        """Store a new state, as somebody else does: in a new object if there is none."""
        key = ObjectKey(namespace, name)
        known = self._objects.get(key)
        self._version += 1
        metadata = (
            dict(known["metadata"]) if known else {"name": name, "namespace": namespace, "uid": f"u{self._version}"}
        )
        self._objects[key] = {**fields, "metadata": {**metadata, "resourceVersion": str(self._version)}}
        self._tell(namespace, (modified if known else added)(self._objects[key]))
        return self._objects[key]

    def remove(self, name: str, namespace: str = "a") -> dict[str, Any]:
        """Delete an object; gives its last state."""
        key = ObjectKey(namespace, name)
        gone = self._existing(key)
        del self._objects[key]
        self._version += 1
        metadata = {**gone["metadata"], "resourceVersion": str(self._version)}
        self._tell(namespace, deleted({**gone, "metadata": metadata}))
        return gone

    async def request(
        self, method: str, path: str, *, params: Params = (), body: bytes | None = None, **_options: Any
    ) -> Answer:
        self.asked.append((method, path))
        namespace, name = _place(path)
        if method != "GET":
            done = answer(self._write(method, namespace, name, orjson.loads(body or b"{}")))
        elif name:
            done = answer(self._existing(ObjectKey(namespace, name)))
        else:
            done = answer(self._list(namespace, dict(params)))
        await asyncio.sleep(self.slow)
        if method != "GET" and self.lost:
            self.lost -= 1
            raise UnavailableError(f"{method} {path}: connection lost", outcome_unknown=True)
        return done

    @asynccontextmanager
    async def stream(self, path: str, **_options: Any) -> AsyncIterator[AsyncIterator[bytes]]:
        namespace, _ = _place(path)
        events: asyncio.Queue[WatchEvent] = asyncio.Queue()
        for obj in self._of(namespace):
            events.put_nowait(added(obj))
        events.put_nowait(initial_events_end(str(self._version), kind="ConfigMap"))
        self._watches.append((namespace, events))
        yield self._lines(events)

    async def _lines(self, events: asyncio.Queue[WatchEvent]) -> AsyncIterator[bytes]:
        while True:
            event = await events.get()
            await self._flowing.wait()
            yield line_of(event)

    def _write(self, method: str, namespace: str, name: str, body: dict[str, Any]) -> dict[str, Any]:
        if method == "DELETE":
            uid = self.remove(name, namespace)["metadata"]["uid"]
            return {"kind": "Status", "status": "Success", "details": {"name": name, "uid": uid}}
        metadata = body["metadata"]
        chosen = name or metadata.get("name") or f"{metadata['generateName']}{self._version}"
        return self.put(chosen, namespace, data=body.get("data", {}))

    def _list(self, namespace: str, params: dict[str, str]) -> dict[str, Any]:
        items = self._pages.pop(params["continue"]) if "continue" in params else self._of(namespace)
        limit = int(params.get("limit", "0")) or len(items)
        metadata = {"resourceVersion": str(self._version)}
        if len(items) > limit:
            metadata["continue"] = f"from-{items[limit]['metadata']['name']}"
            self._pages[metadata["continue"]] = items[limit:]
        return {"kind": "ConfigMapList", "metadata": metadata, "items": items[:limit]}

    def _existing(self, key: ObjectKey) -> dict[str, Any]:
        if key not in self._objects:
            raise NotFoundError(Status(404, "NotFound"))
        return self._objects[key]

    def _of(self, namespace: str) -> list[dict[str, Any]]:
        return [obj for key, obj in sorted(self._objects.items()) if namespace in ("", key.namespace)]

    def _tell(self, namespace: str, event: WatchEvent) -> None:
        for watched, events in self._watches:
            if watched in ("", namespace):
                events.put_nowait(event)


def _place(path: str) -> tuple[str, str]:
    parts = path.removeprefix(_ROOT).split("/")
    namespace = parts[1] if parts[0] == "namespaces" else ""
    rest = parts[2:] if namespace else parts
    assert rest[0] == "configmaps", path
    return namespace, rest[1] if len(rest) > 1 else ""
