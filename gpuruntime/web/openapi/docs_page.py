"""A page that lists the routes of the running process, made from the route table, so that it is never wrong."""

import html
import inspect

from aiohttp import web

from gpuruntime import __version__

__all__ = ["docs_page"]

_PAGE = """<!doctype html>
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


async def docs_page(request: web.Request) -> web.Response:
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
