"""The HTTP application: every route of the product on one screen, beside the manager's own probes and metrics."""

from aiohttp import web

from gpuruntime.web.docs_page import docs_page
from gpuruntime.web.errors import errors_as_json

__all__ = ["install"]


def install(app: web.Application) -> None:
    """Add the product's routes to an application."""
    app.middlewares.append(errors_as_json)
    app.add_routes([web.get("/", docs_page)])
