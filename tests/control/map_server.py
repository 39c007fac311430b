"""ConfigMaps in memory behind a wire, versioned and selected as the API server does it, with watches that can be held
back.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import orjson
from attrs import define, field, frozen
from multidict import CIMultiDict, CIMultiDictProxy

from gpuruntime.kube.errors import NotFoundError, Status, UnavailableError
from gpuruntime.kube.transport.request import Params, Request
from gpuruntime.kube.transport.response import Response
from gpuruntime.meta.field_selectors import FieldSelector, parse_field_selector
from gpuruntime.meta.identity import ObjectKey
from gpuruntime.meta.label_selectors import Selector, parse_selector
from gpuruntime.testing.scripted import WatchEvent, added, deleted, initial_events_end, line_of, modified

__all__ = ["MapServer", "answer"]

_ROOT = "/api/v1/"
_START = 100


def answer(value: Any) -> Response:
    return Response(200, CIMultiDictProxy(CIMultiDict()), orjson.dumps(value))


@frozen
class Scope:
    """What a list or a watch asks for."""

    namespace: str
    labels: Selector
    fields: FieldSelector

    @classmethod
    def asked(cls, namespace: str, params: Params) -> "Scope":
        wanted = dict(params)
        labels, fields = wanted.get("labelSelector", ""), wanted.get("fieldSelector", "")
        return cls(namespace, parse_selector(labels), parse_field_selector(fields))

    def has(self, obj: dict[str, Any] | None) -> bool:
        if obj is None:
            return False
        metadata = obj["metadata"]
        fields = {f"metadata.{name}": metadata[name] for name in ("name", "namespace")}
        fields["data.color"] = obj.get("data", {}).get("color", "")
        is_here = self.namespace in ("", metadata["namespace"])
        return is_here and self.labels.matches(metadata.get("labels", {})) and self.fields.matches(fields)


@define
class MapServer:
    """A wire to the server and the server at once.

    `asked` has all requests but watches. `lost` is how many answers to writes get lost from now on, `slow` how many
    seconds an answer takes to arrive. `shows_deleted` makes deletions answer with the object, as those of services do.
    """

    asked: list[tuple[str, str]] = field(factory=list)
    lost: int = 0
    slow: float = 0.0
    shows_deleted: bool = False
    _objects: dict[ObjectKey, dict[str, Any]] = field(factory=dict)
    _history: list[tuple[dict[str, Any] | None, dict[str, Any] | None]] = field(factory=list)
    _watches: list[tuple[Scope, asyncio.Queue[WatchEvent]]] = field(factory=list)
    _flowing: asyncio.Event = field(factory=asyncio.Event)
    _pages: dict[str, tuple[str, list[dict[str, Any]]]] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self._flowing.set()

    def hold(self) -> None:
        """Keep the events of watches back."""
        self._flowing.clear()

    def release(self) -> None:
        self._flowing.set()

    @property
    def version(self) -> int:
        """The version of the last change."""
        return _START + len(self._history)

    def put(
        self, name: str, namespace: str = "a", labels: Mapping[str, str] | None = None, **fields: Any
    ) -> dict[str, Any]:
        """Store a new state, as another client does: in a new object if there is none. Labels stay unless given."""
        key = ObjectKey(namespace, name)
        known = self._objects.get(key)
        version = self.version + 1
        metadata = dict(known["metadata"]) if known else {"name": name, "namespace": namespace, "uid": f"u{version}"}
        if labels is not None:
            metadata["labels"] = dict(labels)
        self._objects[key] = {**fields, "metadata": {**metadata, "resourceVersion": str(version)}}
        self._publish(known, self._objects[key])
        return self._objects[key]

    def remove(self, name: str, namespace: str = "a") -> dict[str, Any]:
        """Delete an object; gives its last state, at the version of the deletion."""
        key = ObjectKey(namespace, name)
        gone = self._existing(key)
        del self._objects[key]
        return self._publish(gone, None)

    async def send(self, request: Request) -> Response:
        method, path, params, body = request.method, request.path, request.params, request.body
        self.asked.append((method, path))
        namespace, name = _place(path)
        if method != "GET":
            done = answer(self._write(method, namespace, name, orjson.loads(body or b"{}")))
        elif name:
            done = answer(self._existing(ObjectKey(namespace, name)))
        else:
            done = answer(self._list(Scope.asked(namespace, params), dict(params)))
        await asyncio.sleep(self.slow)
        if method != "GET" and self.lost:
            self.lost -= 1
            raise UnavailableError(f"{request}: connection lost", outcome_unknown=True)
        return done

    @asynccontextmanager
    async def stream(self, request: Request, *, idle_timeout: float) -> AsyncIterator[AsyncIterator[bytes]]:
        assert idle_timeout > 0
        scope = Scope.asked(_place(request.path)[0], request.params)
        events: asyncio.Queue[WatchEvent] = asyncio.Queue()
        wanted = dict(request.params)
        if "sendInitialEvents" in wanted:
            for obj in self._of(scope):
                events.put_nowait(added(obj))
            events.put_nowait(initial_events_end(str(self.version), kind="ConfigMap"))
        else:
            for before, after in self._history[int(wanted["resourceVersion"]) - _START :]:
                _publish(scope, events, before, after)
        self._watches.append((scope, events))
        yield self._lines(events)

    async def _lines(self, events: asyncio.Queue[WatchEvent]) -> AsyncIterator[bytes]:
        while True:
            event = await events.get()
            await self._flowing.wait()
            yield line_of(event)

    def _write(self, method: str, namespace: str, name: str, body: dict[str, Any]) -> dict[str, Any]:
        if method == "DELETE":
            gone = self.remove(name, namespace)
            if self.shows_deleted:
                return gone
            details = {"name": name, "uid": gone["metadata"]["uid"]}
            return {"kind": "Status", "status": "Success", "details": details}
        metadata = body["metadata"]
        chosen = name or metadata.get("name") or f"{metadata['generateName']}{self.version}"
        return self.put(chosen, namespace, metadata.get("labels"), data=body.get("data", {}))

    def _list(self, scope: Scope, params: dict[str, str]) -> dict[str, Any]:
        version, items = str(self.version), self._of(scope)
        if "continue" in params:
            version, items = self._pages.pop(params["continue"])
        limit = int(params.get("limit", "0")) or len(items)
        metadata = {"resourceVersion": version}
        if len(items) > limit:
            metadata["continue"] = f"from-{items[limit]['metadata']['name']}"
            self._pages[metadata["continue"]] = (version, items[limit:])
        return {"kind": "ConfigMapList", "metadata": metadata, "items": items[:limit]}

    def _existing(self, key: ObjectKey) -> dict[str, Any]:
        if key not in self._objects:
            raise NotFoundError(Status(404, "NotFound"))
        return self._objects[key]

    def _of(self, scope: Scope) -> list[dict[str, Any]]:
        return [obj for _, obj in sorted(self._objects.items()) if scope.has(obj)]

    def _publish(self, before: dict[str, Any] | None, after: dict[str, Any] | None) -> dict[str, Any]:
        """Publish a change at a new version; returns the last state of the object, at that version."""
        version = str(self.version + 1)
        last = before and {**before, "metadata": {**before["metadata"], "resourceVersion": version}}
        self._history.append((last, after))
        for scope, events in self._watches:
            _publish(scope, events, last, after)
        return last or {}


def _publish(
    scope: Scope, events: asyncio.Queue[WatchEvent], before: dict[str, Any] | None, after: dict[str, Any] | None
) -> None:
    """A watch hears of objects that come into its scope, change there and leave it."""
    was, is_ = scope.has(before), scope.has(after)
    if after is not None and is_:
        events.put_nowait((modified if was else added)(after))
    elif before is not None and was:
        events.put_nowait(deleted(before))


def _place(path: str) -> tuple[str, str]:
    parts = path.removeprefix(_ROOT).split("/")
    namespace = parts[1] if parts[0] == "namespaces" else ""
    rest = parts[2:] if namespace else parts
    assert rest[0] == "configmaps", path
    return namespace, rest[1] if len(rest) > 1 else ""
