"""The description of the API at /api/v1/openapi.json, and Swagger UI at /swagger/index.html to read and try it.

Swagger UI is swagger-ui-dist of the version in swagger/package.json, unchanged but for the page that starts it. Nothing
is loaded from anywhere else, and no credentials are needed: what an API can do is no secret, who may do it is checked.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import orjson
from aiohttp import web

from gpuruntime.web.openapi.document import openapi_document
from gpuruntime.web.server.route import PREFIX, Route

__all__ = ["mount_documentation"]

_FILES: Final = Path(__file__).parent / "swagger"
_SERVED: Final = ("index.html", "start.js", "swagger-ui-bundle.js", "swagger-ui.css", "favicon-32x32.png", "LICENSE")
_HEADERS: Final = {
    # Whatever a description says, the browser asks nobody but us.
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline';"
    " frame-ancestors 'none'",
    "Cache-Control": "no-cache",
    "X-Content-Type-Options": "nosniff",
}


def mount_documentation(app: web.Application, routes: Sequence[Route]) -> None:
    """Serve the description of routes, and the pages that show it."""
    app.router.add_get(f"{PREFIX}/openapi.json", _Description(routes).serve)
    app.router.add_get("/swagger", _to_index)
    app.router.add_get("/swagger/", _to_index)
    for name in _SERVED:
        app.router.add_get(f"/swagger/{name}", _file)


class _Description:
    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = routes
        self._text: bytes | None = None

    async def serve(self, _request: web.Request) -> web.Response:
        """The API in OpenAPI 3.1."""
        if self._text is None:
            # The sources of all types are read for it, which takes a good part of a second.
            self._text = await asyncio.to_thread(lambda: orjson.dumps(openapi_document(self._routes)))
        headers = {"Cache-Control": "no-cache"}
        return web.Response(body=self._text, content_type="application/json", headers=headers)


async def _to_index(_request: web.Request) -> web.Response:
    """To the page below."""
    return web.Response(status=302, headers={"Location": "/swagger/index.html"})


async def _file(request: web.Request) -> web.FileResponse:
    """The API to read and try."""
    return web.FileResponse(_FILES / request.path.rpartition("/")[2], headers=_HEADERS)
