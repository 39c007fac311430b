"""The HTTP application of the accessor.

::

    GET, HEAD /files/PATH    a file, or the listing of a directory; needs a bearer that the gateway signed
    GET       /readyz        for probes, without credentials: whether the volume can be read
"""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from aiohttp import web
from attrs import field, frozen

from gpuruntime.control.serving import ERROR_RESPONSE
from gpuruntime.endpoints.server.errors import CODES, ApiError
from gpuruntime.endpoints.server.headers import matches_any
from gpuruntime.endpoints.server.response_format import add_request_id, bad_request_response, formatted
from gpuruntime.gateway.accessor.listing import as_html, as_json, list_directory
from gpuruntime.gateway.accessor.ranges import FileVersion, Part, UnsatisfiableRangeError, part_of
from gpuruntime.gateway.accessor.volume import NoSuchFileError, Opened, RefusedFileError, Volume
from gpuruntime.gateway.content_headers import CONTENT_HEADERS, file_headers
from gpuruntime.gateway.signing.bearer import BearerCheck, BearerError
from gpuruntime.gateway.unmatched import unmatched
from gpuruntime.gateway.volume_paths import VolumePath, VolumePathError, parse_path, quoted

__all__ = ["accessor_app"]

T = TypeVar("T")
_FILES: Final = "/files/"
_CHUNK: Final = 256 * 1024
_THREADS: Final = 16
_PROBE_SECONDS: Final = 2.0


def accessor_app(volume: Volume, bearers: BearerCheck) -> web.Application:
    """The application that serves a volume to requests with a valid bearer.

    Guarantees:
        Nothing outside of the volume is read, and nothing is written. What is sent of a file was read from one open
        file: it is cut off if the file shrinks meanwhile. Memory does not depend on the sizes of files.
    """
    accessor = _Accessor(volume, bearers)
    app = web.Application(middlewares=[formatted])
    app.on_response_prepare.append(add_request_id)
    app[ERROR_RESPONSE] = bad_request_response
    app.on_cleanup.append(accessor.close)
    app.router.add_get("/readyz", accessor.readyz, allow_head=False)
    app.router.add_get(_FILES + "{path:.*}", accessor.serve)
    app.router.add_route("*", "/{path:.*}", unmatched)
    return app


@frozen
class _Accessor:
    volume: Volume
    bearers: BearerCheck
    threads: ThreadPoolExecutor = field(factory=lambda: ThreadPoolExecutor(_THREADS, "volume"))

    async def close(self, _app: web.Application) -> None:
        self.threads.shutdown(wait=False, cancel_futures=True)

    async def readyz(self, _request: web.Request) -> web.StreamResponse:
        """Whether the volume answers within two seconds."""
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                (await self._opened(VolumePath())).close()
        except (TimeoutError, OSError, NoSuchFileError, RefusedFileError) as error:
            raise ApiError(503, CODES[503], "the volume does not answer") from error
        return web.Response(text="ok")

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """A file, or the listing of a directory."""
        self._authenticate(request)
        # The path as it was sent: a decoded one would have lost which of its slashes were encoded.
        raw = request.rel_url.raw_path.removeprefix(_FILES)
        try:
            path = parse_path(raw)
            opened = await self._opened(path)
        except VolumePathError as error:
            raise ApiError(400, CODES[400], f"path: {error}") from error
        except NoSuchFileError as error:
            raise ApiError(404, CODES[404], str(error)) from error
        except RefusedFileError as error:
            raise ApiError(403, CODES[403], str(error)) from error
        with opened:
            if opened.is_directory:
                return await self._directory(request, path, opened)
            if path.ends_with_slash:
                raise ApiError(404, CODES[404], "there is no such directory")
            return await self._file(request, path, opened)

    def _authenticate(self, request: web.Request) -> None:
        scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not bearer:
            raise ApiError(401, CODES[401], "expected a bearer that the access gateway signed, got none")
        try:
            self.bearers.check(bearer.strip())
        except BearerError as error:
            raise ApiError(401, CODES[401], str(error)) from error

    async def _opened(self, path: VolumePath) -> Opened:
        opening = self.threads.submit(self.volume.open, path.names)
        try:
            return await asyncio.shield(asyncio.wrap_future(opening))
        except asyncio.CancelledError:
            # The thread may still open it.
            opening.add_done_callback(_close)
            raise

    async def _directory(self, request: web.Request, path: VolumePath, opened: Opened) -> web.StreamResponse:
        if not path.ends_with_slash:
            # Links in a listing are relative to it.
            location = f"./{quoted(path.names[-1])}/"
            return web.Response(status=308, headers={**CONTENT_HEADERS, "Location": location})
        listing = await self._in_thread(lambda: list_directory(opened.fd))
        if "text/html" in request.headers.get("Accept", ""):
            body, kind = as_html(listing, is_root=not path.names), "text/html; charset=utf-8"
        else:
            body, kind = as_json(listing), "application/json"
        return web.Response(body=body, headers={**CONTENT_HEADERS, "Content-Type": kind, "Vary": "Accept"})

    async def _file(self, request: web.Request, path: VolumePath, opened: Opened) -> web.StreamResponse:
        version = FileVersion.of(opened.stat)
        headers = {
            **CONTENT_HEADERS,
            **file_headers(path.names[-1]),
            "ETag": version.etag,
            "Last-Modified": version.last_modified,
            "Accept-Ranges": "bytes",
        }
        if _is_known(request, version):
            return web.Response(status=304, headers=headers)
        try:
            part = part_of(version, request.headers)
        except UnsatisfiableRangeError as error:
            size = {"Content-Range": f"bytes */{version.size}"}
            raise ApiError(416, "range_not_satisfiable", str(error), headers=size) from error
        response = web.StreamResponse(status=200 if part.is_whole else 206, headers=headers)
        if not part.is_whole:
            response.headers["Content-Range"] = f"bytes {part.start}-{part.end - 1}/{version.size}"
        response.content_length = part.size
        # A caller that leaves is no error.
        with suppress(ConnectionResetError):
            await response.prepare(request)
            if request.method != "HEAD":
                await self._send(request, response, opened, part)
        return response

    async def _send(self, request: web.Request, response: web.StreamResponse, opened: Opened, part: Part) -> None:
        position = part.start
        while position < part.end:
            wanted = min(_CHUNK, part.end - position)
            data = await self._in_thread(partial(os.pread, opened.fd, wanted, position))
            if not data and request.transport is not None:
                # The file shrank. Its length was promised: without a reset the client would wait for the rest.
                request.transport.abort()
            if not data:
                return
            await response.write(data)
            position += len(data)
        await response.write_eof()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.threads, work)


def _is_known(request: web.Request, version: FileVersion) -> bool:
    if "If-None-Match" in request.headers:
        return matches_any(request.headers, version.etag)
    return version.is_unchanged_since(request.headers.get("If-Modified-Since"))


def _close(opening: "Future[Opened]") -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
