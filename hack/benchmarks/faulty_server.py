"""An API server with one fault for every watch, which counts the requests that follow.

Discovery, the version of the server and plain lists work, so that clients get as far as a watch.
"""

import asyncio
import json
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from aiohttp import web
from attrs import field, frozen

__all__ = ["FAULTS", "Fault", "FaultyServer"]

_HOST = "127.0.0.1"
_PODS = "/api/v1/pods"
_VERSION = "1000"
_JSON = "application/json"


def _status(code: int, reason: str, message: str) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }


@frozen
class Fault:
    """The response to every watch; with `bookmark`, clients that allow bookmarks first get one."""

    name: str
    status: int = 200
    body: str = ""
    content_type: str = _JSON
    headers: Mapping[str, str] = field(factory=dict)
    bookmark: bool = False


_PAGE = "<!DOCTYPE html><html><body><h1>Please sign in</h1></body></html>\n"
_GONE = _status(410, "Expired", "too old resource version: 1000 (2000)")
FAULTS = (
    Fault("closed at once"),
    Fault("closed after a bookmark", bookmark=True),
    Fault("HTTP 500", 500, json.dumps(_status(500, "InternalError", "etcdserver: leader changed"))),
    Fault("HTTP 403", 403, json.dumps(_status(403, "Forbidden", "pods is forbidden"))),
    Fault("HTTP 410", 410, json.dumps(_GONE)),
    Fault("410 as an event", body=json.dumps({"type": "ERROR", "object": _GONE}) + "\n"),
    Fault(
        "HTTP 429", 429, json.dumps(_status(429, "TooManyRequests", "too many requests")), headers={"Retry-After": "1"}
    ),
    Fault("HTTP 502, an HTML page", 502, _PAGE, "text/html"),
    Fault("HTTP 200, an HTML page", 200, _PAGE, "text/html"),
)


class FaultyServer:
    """A server with one fault for one contender: plain HTTP on loopback. Leaving the block closes all connections."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault
        self._requests: list[float] = []
        self._asked = asyncio.Event()
        application = web.Application()
        for path, document in _DISCOVERY.items():
            application.router.add_get(path, _serve(document))
            application.router.add_get(f"{path}/", _serve(document))
        application.router.add_get(_PODS, self._pods)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        self._port = 0

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        site = web.TCPSite(self._runner, _HOST, 0)
        await site.start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    def kubeconfig(self) -> str:
        """A kubeconfig of the server, in JSON."""
        return json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "faulty",
                "clusters": [{"name": "faulty", "cluster": {"server": f"http://{_HOST}:{self._port}"}}],
                "users": [{"name": "nobody", "user": {"token": "none"}}],
                "contexts": [{"name": "faulty", "context": {"cluster": "faulty", "user": "nobody"}}],
            }
        )

    async def asked_for(self, seconds: float) -> None:
        """Wait until `seconds` after the first request for pods."""
        await self._asked.wait()
        await asyncio.sleep(self._requests[0] + seconds - asyncio.get_running_loop().time())

    def rate(self, since: float, until: float) -> float:
        """Requests for pods (lists and watches) per second, between two times in seconds after the first request."""
        ages = [moment - self._requests[0] for moment in self._requests]
        return sum(since <= age < until for age in ages) / (until - since)

    async def _pods(self, request: web.Request) -> web.StreamResponse:
        self._requests.append(asyncio.get_running_loop().time())
        self._asked.set()
        if request.query.get("watch") not in {"true", "True", "1"}:
            return web.json_response(
                {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": _VERSION}, "items": []}
            )
        body = self._fault.body
        if self._fault.bookmark and request.query.get("allowWatchBookmarks") in {"true", "True", "1"}:
            initial = request.query.get("sendInitialEvents") in {"true", "True", "1"}
            body = json.dumps({"type": "BOOKMARK", "object": _bookmark(initial)}) + "\n"
        return web.Response(
            status=self._fault.status, text=body, content_type=self._fault.content_type, headers=self._fault.headers
        )


def _bookmark(initial: bool) -> dict[str, Any]:
    annotations = {"annotations": {"k8s.io/initial-events-end": "true"}} if initial else {}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": _VERSION, **annotations}}


def _serve(document: dict[str, Any]) -> Any:
    async def answer(_request: web.Request) -> web.Response:
        return web.json_response(document)

    return answer


def _resource(name: str, kind: str, *, namespaced: bool = True) -> dict[str, Any]:
    verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
    return {
        "name": name,
        "singularName": kind.lower(),
        "kind": kind,
        "namespaced": namespaced,
        "shortNames": [],
        "verbs": verbs,
    }


# kopf starts no watch before discovery shows namespaces and events.
_RESOURCES = [
    _resource("pods", "Pod"),
    _resource("events", "Event"),
    _resource("namespaces", "Namespace", namespaced=False),
]
_DISCOVERY: Mapping[str, dict[str, Any]] = {
    "/version": {"major": "1", "minor": "36", "gitVersion": "v1.36.3"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
    "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": _RESOURCES},
}
