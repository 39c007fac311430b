"""Replies of handlers as HTTP answers, in the envelope."""

from typing import Any

import orjson
from aiohttp import web

from gpuruntime.meta import encode
from gpuruntime.web.server.headers import matches_any
from gpuruntime.web.server.route import Page, Reply

__all__ = ["response_of"]


def response_of(reply: Reply, request: web.Request) -> web.Response:
    """The answer to a request; 304 if the reader has the same already."""
    # What one caller may see is not for a cache between us and the next.
    headers = {"Cache-Control": "no-store", **reply.headers}
    etag = headers.get("ETag")
    if etag is not None and reply.status == 200 and request.method in {"GET", "HEAD"}:
        headers["Cache-Control"] = "private, no-cache"
        if matches_any(request.headers, etag):
            return web.Response(status=304, headers=headers)
    if reply.data is None:
        return web.Response(status=reply.status, headers=headers)
    body = orjson.dumps(_envelope(reply.data))
    return web.Response(status=reply.status, body=body, headers=headers, content_type="application/json")


def _envelope(data: Any) -> dict[str, Any]:
    if isinstance(data, Page):
        more = {"next": data.next} if data.next else {}
        return {"data": [encode(item) for item in data.items], **more}
    if isinstance(data, tuple):
        return {"data": [encode(item) for item in data]}
    return {"data": encode(data)}
