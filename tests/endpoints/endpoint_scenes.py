"""A small API to test endpoints with."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from attrs import field, frozen

from gpuruntime.control.serving.http_site import HttpAddress, serving
from gpuruntime.endpoints.auth.access_control import Access, AccessControl
from gpuruntime.endpoints.server.endpoint import mount
from gpuruntime.endpoints.server.route import Call, Caller, Idempotency, Page, Reply, Response, Route, Scope
from gpuruntime.meta.frozen_mapping import EMPTY, FrozenDict
from gpuruntime.meta.rules import Items, Length, Pattern, Range
from gpuruntime.meta.structs import Struct, wire
from gpuruntime.web.openapi.swagger_ui import mount_documentation

Client = TestClient[web.Request, web.Application]


@frozen
class Part(Struct):
    """A part of a widget."""

    name: Annotated[str, Pattern("^[a-z]+$"), Length(maximum=10)]
    secret: str | None = field(default=None, metadata=wire(sensitive=True))
    """Never quoted."""
    color: str = "red"
    """Its color."""


@frozen
class WidgetBody(Struct):
    """The spec of a widget."""

    name: Annotated[str, Length(minimum=1, maximum=20)]
    size: Annotated[int, Range(minimum=1, maximum=8)] = 1
    """Its size."""
    parts: Annotated[tuple[Part, ...], Items(maximum=3)] = ()
    spare: Part | None = None
    lid: Part = field(default=Part("lid"))
    marks: FrozenDict[str, str] = EMPTY
    """Its marks."""


@frozen
class WidgetQuery(Struct):
    limit: Annotated[int | None, Range(minimum=1, maximum=100)] = None
    """Maximum number."""
    watch: bool | None = None
    phase: str | None = None


@frozen
class WidgetView(Struct):
    """A widget."""

    name: str
    size: int


@frozen
class TokenTable:
    """A table of tokens."""

    owners: FrozenDict[str, Caller]

    async def authenticate(self, token: str) -> Caller | None:
        return self.owners.get(token)


SCOPES = (Scope.NONE, Scope.READ, Scope.WRITE, Scope.OPERATOR, Scope.ACCESS)
TOKENS = TokenTable(FrozenDict({str(scope): Caller(f"the-{scope}", scope) for scope in SCOPES}))


class Widgets:
    """Handlers that record their calls."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.error: Exception | None = None

    def routes(self) -> tuple[Route, ...]:
        one = (Response(200, WidgetView, "The widget."),)
        return (
            Route(
                "GET",
                "/widgets",
                self.list,
                "List widgets",
                Scope.READ,
                name="listWidgets",
                query=WidgetQuery,
                responses=(Response(200, WidgetView, "The widgets.", is_list=True),),
            ),
            Route(
                "POST",
                "/widgets",
                self.create,
                "Create a widget",
                Scope.WRITE,
                name="createWidget",
                body=WidgetBody,
                responses=(Response(201, WidgetView, "Created."),),
                idempotency=Idempotency.REQUIRED,
            ),
            Route(
                *("GET", "/widgets/{name}", self.get, "Get it", Scope.READ),
                name="getWidget",
                responses=one,
                errors=(_NO_WIDGET,),
            ),
            Route(
                "DELETE",
                "/widgets/{name}",
                self.delete,
                "Delete it",
                Scope.OPERATOR,
                name="deleteWidget",
                responses=(Response(204, None, "Gone."),),
                idempotency=Idempotency.ACCEPTED,
                errors=(_NO_WIDGET,),
            ),
            Route("GET", "/stream", self.stream, "Break", Scope.READ, name="getStream", responses=one),
        )

    def _record(self, call: Call) -> None:
        self.calls.append(call)
        if self.error is not None:
            raise self.error

    async def list(self, call: Call) -> Reply:
        """List all widgets.

        Raises:
            KubeError: the cluster is away.
        """
        self._record(call)
        return Reply(200, Page((WidgetView("a", 1), WidgetView("b", 2)), next="b"))

    async def create(self, call: Call) -> Reply:
        self._record(call)
        return Reply(201, WidgetView(call.body.name, call.body.size))

    async def get(self, call: Call) -> Reply:
        self._record(call)
        return Reply(200, WidgetView(call.path_params["name"], 1), FrozenDict({"ETag": '"7"'}))

    async def delete(self, call: Call) -> Reply:
        self._record(call)
        return Reply(204)

    async def stream(self, call: Call) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(call.request)
        await response.write(b"the first half")
        raise RuntimeError("no second half")


_NO_WIDGET = (404, "widget_not_found")


@asynccontextmanager
async def serving_widgets(widgets: Widgets, access: Access = Access.CREDENTIALS) -> AsyncIterator[Client]:
    """A client of the API; it sends no credentials by default."""
    app = web.Application()
    mount(app, widgets.routes(), AccessControl(access, TOKENS))
    mount_documentation(app, widgets.routes())
    async with TestClient(TestServer(app)) as client:
        yield client


async def answer_to(sent: bytes, app: web.Application) -> tuple[int, dict[str, str], bytes]:
    """The first response on a connection that sends these bytes: its status, headers and body."""
    async with serving(app, HttpAddress()) as bound, asyncio.timeout(30):
        reader, writer = await asyncio.open_connection(bound.host, bound.port)
        writer.write(sent)
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): text for name, _, text in (line.partition(": ") for line in head[1:])}
        body = await reader.readexactly(int(headers["content-length"]))
        writer.close()
    return int(head[0].split()[1]), headers, body


def bearer(scope: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {scope}"}
