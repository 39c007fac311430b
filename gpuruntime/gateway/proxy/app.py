"""The HTTP application of the access gateway.

::

    GET, HEAD /storage/NAMESPACE/NAME/PATH    a file of a storage, or the listing of a directory; scope access
"""

import asyncio
from collections.abc import Callable
from typing import Final

from aiohttp import web
from attrs import frozen

from gpuruntime.control.serving import ERROR_RESPONSE
from gpuruntime.endpoints.auth.access_control import AccessControl, require
from gpuruntime.endpoints.server.errors import CODES, ApiError, as_api_error
from gpuruntime.endpoints.server.response_format import add_request_id, bad_request_response, formatted
from gpuruntime.endpoints.server.route import Scope
from gpuruntime.gateway.proxy.forwarding import Forwarding, accessor_session
from gpuruntime.gateway.proxy.storages import Storages
from gpuruntime.gateway.proxy.stream_audit import StreamRecord, audit_stream
from gpuruntime.gateway.unmatched import unmatched
from gpuruntime.gateway.volume_paths import VolumePathError, parse_path
from gpuruntime.service.log_context import current_request_id

__all__ = ["StorageRoute", "mount_gateway"]

STORAGE_PATH: Final = "/storage/{namespace}/{name}"


@frozen
class StorageRoute:
    """Serves the files of storages.

    Guarantees:
        Nothing is read for a caller without scope access. Every request has a line in the audit log when it has ended,
        however it ended.

    Args:
        is_stopping: whether the process stops; a stream that is cut off then was drained.
    """

    access: AccessControl
    storages: Storages
    forwarding: Forwarding
    is_stopping: Callable[[], bool]

    async def serve(self, request: web.Request) -> web.StreamResponse:
        clock = asyncio.get_running_loop().time
        started, streams = clock(), self.forwarding.streams
        raw = request.rel_url.raw_path
        record = StreamRecord(request.method, raw, current_request_id.get(), request.remote or "")
        try:
            return await self._respond(request, record)
        except asyncio.CancelledError:
            record.end = "drained" if self.is_stopping() else "client_closed"
            raise
        except Exception as raised:
            error = as_api_error(raised)
            record.status, record.code = error.status, error.code
            record.end = record.end if record.end == "accessor_failed" else "refused"
            raise
        finally:
            streams.ended[record.end] += 1
            audit_stream(record, clock() - started)

    async def _respond(self, request: web.Request, record: StreamRecord) -> web.StreamResponse:
        caller = await self.access.authenticate(request)
        record.caller = caller.name
        require(caller, Scope.ACCESS)
        # The path as it was sent: a decoded one would have lost which of its slashes were encoded. Without the origin,
        # which a caller may send with it.
        _, _, namespace, name, rest = request.rel_url.raw_path.split("/", 4)
        record.namespace, record.storage = namespace[:63], name[:63]
        try:
            path = parse_path(rest)
        except VolumePathError as error:
            raise ApiError(400, CODES[400], f"path: {error}") from error
        storage = self.storages.readable(namespace, name)
        record.storage_uid = storage.metadata.uid
        with self.forwarding.streams.opened(caller.name, storage.key):
            return await self.forwarding.forward(request, storage, path, record)

    async def add_slash(self, request: web.Request) -> web.StreamResponse:
        """Links in a listing are relative to it."""
        return web.Response(status=308, headers={"Location": f"{request.rel_url.raw_path}/"})


def mount_gateway(app: web.Application, route: StorageRoute) -> None:
    """Serve the gateway in an application. All errors have one format."""
    app.middlewares.append(formatted)
    app.on_response_prepare.append(add_request_id)
    app[ERROR_RESPONSE] = bad_request_response
    app.cleanup_ctx.append(accessor_session)
    app.router.add_get(STORAGE_PATH, route.add_slash)
    app.router.add_get(STORAGE_PATH + "/{path:.*}", route.serve)
    app.router.add_route("*", "/{path:.*}", unmatched)
