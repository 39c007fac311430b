"""The HTTP application: every route on one screen."""

from aiohttp import web

from gpuruntime.web.docs_page import docs_page
from gpuruntime.web.errors import errors_as_json
from gpuruntime.web.probes import livez, readyz

__all__ = ["application"]


def application() -> web.Application:
    app = web.Application(middlewares=[errors_as_json])
    app.add_routes(
        [
            web.get("/", docs_page),
            web.get("/livez", livez),
            web.get("/readyz", readyz),
        ]
    )
    return app
