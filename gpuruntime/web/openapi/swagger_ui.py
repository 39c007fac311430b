"""Documentation of the API: /api/v1/openapi.json, Swagger UI at /swagger/index.html, and a list of all routes at /.

Swagger UI is swagger-ui-dist in the version of swagger/package.json, unchanged but for the page that starts it. Nothing
is loaded from other hosts. No credentials are needed: the description of an API is no secret.
"""

import asyncio
import html
import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import orjson
from aiohttp import web

from gpuruntime import __version__
from gpuruntime.endpoints.server.route import PREFIX, Route
from gpuruntime.web.openapi.document import openapi_document

__all__ = ["mount_documentation"]

_FILES: Final = Path(__file__).parent / "swagger"
_SERVED: Final = ("index.html", "start.js", "swagger-ui-bundle.js", "swagger-ui.css", "favicon-32x32.png", "LICENSE")
_HEADERS: Final = {
    # The browser sends requests to this API only, whatever the document contains.
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline';"
    " frame-ancestors 'none'",
    "Cache-Control": "no-cache",
    "X-Content-Type-Options": "nosniff",
}
_PAGE: Final = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>gpuruntime API</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 50rem; margin: 3rem auto; padding: 0 1rem; color: #1b1f24 }}
td {{ padding: .4rem 1.5rem .4rem 0; vertical-align: top; border-top: 1px solid #d0d7de }}
code {{ font-size: .9rem; white-space: nowrap }}
</style></head>
<body><h1>gpuruntime {version}</h1><table>{rows}</table></body>
</html>
"""


def mount_documentation(app: web.Application, routes: Sequence[Route]) -> None:
    """Serve the OpenAPI document of routes, Swagger UI, and a page that lists every route of the application."""
    app.router.add_get(f"{PREFIX}/openapi.json", _Document(routes).serve)
    app.router.add_get("/swagger", _redirect_to_index)
    app.router.add_get("/swagger/", _redirect_to_index)
    for name in _SERVED:
        app.router.add_get(f"/swagger/{name}", _file)
    app.router.add_get("/", _route_list)


class _Document:
    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = routes
        self._json: bytes | None = None

    async def serve(self, _request: web.Request) -> web.Response:
        """The OpenAPI 3.1 document."""
        if self._json is None:
            # It parses the source of every type for the descriptions, which takes a good part of a second.
            self._json = await asyncio.to_thread(lambda: orjson.dumps(openapi_document(self._routes)))
        headers = {"Cache-Control": "no-cache"}
        return web.Response(body=self._json, content_type="application/json", headers=headers)


async def _redirect_to_index(_request: web.Request) -> web.Response:
    """Redirects to Swagger UI."""
    return web.Response(status=302, headers={"Location": "/swagger/index.html"})


async def _file(request: web.Request) -> web.FileResponse:
    """Swagger UI."""
    return web.FileResponse(_FILES / request.path.rpartition("/")[2], headers=_HEADERS)


async def _route_list(request: web.Request) -> web.Response:
    """This page."""
    rows = [
        f"<tr><td><code>{route.method}</code></td>"
        f"<td><code>{html.escape(route.resource.canonical)}</code></td>"
        f"<td>{html.escape(_summary(route))}</td></tr>"
        for route in request.app.router.routes()
        if route.method != "HEAD" and route.resource is not None
    ]
    return web.Response(text=_PAGE.format(version=__version__, rows="".join(rows)), content_type="text/html")


def _summary(route: web.AbstractRoute) -> str:
    return (inspect.getdoc(route.handler) or "").split("\n", 1)[0]
