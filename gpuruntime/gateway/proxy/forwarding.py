"""The request to an accessor, and the passing on of its response.

Only listed headers pass, in either direction: no credentials of a caller reach an accessor, and an accessor sets no
cookies.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final

from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, TCPConnector, web
from attrs import frozen
from yarl import URL

from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.endpoints.server.errors import ApiError
from gpuruntime.gateway.content_headers import (
    CONTENT_HEADERS,
    FORWARDED_REQUEST_HEADERS,
    FORWARDED_RESPONSE_HEADERS,
)
from gpuruntime.gateway.proxy.storages import AccessorAddresses
from gpuruntime.gateway.proxy.stream_audit import StreamRecord
from gpuruntime.gateway.proxy.streams import Streams
from gpuruntime.gateway.signing.bearer import signed_bearer
from gpuruntime.gateway.signing.keys import SigningKeyFile
from gpuruntime.gateway.volume_paths import VolumePath

__all__ = ["Forwarding", "accessor_session"]

_SESSION: Final = web.AppKey("accessor_session", ClientSession)
_CHUNK: Final = 64 * 1024
_CONNECT_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 30.0
_FORWARDED_FOR: Final = "X-Forwarded-For"
# What the accessor answers about the request itself. All else is a failure of the accessor.
_PASSED_ON: Final = frozenset({200, 206, 304, 308, 400, 403, 404, 416})


async def accessor_session(app: web.Application) -> AsyncIterator[None]:
    """For `cleanup_ctx` of an application: the connections to accessors, while it is served."""
    async with ClientSession(
        connector=TCPConnector(limit=0, limit_per_host=0, keepalive_timeout=15.0),
        timeout=ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, connect=_CONNECT_SECONDS),
        auto_decompress=False,
        read_bufsize=_CHUNK,
        skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding"),
    ) as session:
        app[_SESSION] = session
        yield


@frozen
class Forwarding:
    """Forwards requests to accessors.

    Guarantees:
        At most a few chunks of a stream are in memory: an accessor is read as fast as the caller receives. A response
        that ends early at the accessor ends early at the caller, too, which sees that it is incomplete.
    """

    addresses: AccessorAddresses
    key: SigningKeyFile
    streams: Streams
    now: Callable[[], float] = time.time

    async def forward(
        self, request: web.Request, storage: GPUStorage, path: VolumePath, record: StreamRecord
    ) -> web.StreamResponse:
        """Send a request to the accessor of a storage, and its response to the caller.

        Raises:
            ApiError: 502, the accessor does not answer, or not as an accessor does.
        """
        url = URL(f"{self.addresses.url(storage)}/files/{path.url_path}", encoded=True)
        headers = self._headers(request, storage, record.request_id)
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                answer = await request.app[_SESSION].request(
                    request.method, url, headers=headers, allow_redirects=False
                )
        except (ClientError, OSError, TimeoutError) as error:
            record.end = "accessor_failed"
            raise _failed("is marked ready but does not answer") from error
        async with answer:
            if answer.status not in _PASSED_ON:
                record.end = "accessor_failed"
                raise _failed(f"is marked ready but answered {answer.status}")
            return await self._pass_on(request, answer, record)

    def _headers(self, request: web.Request, storage: GPUStorage, request_id: str) -> dict[str, str]:
        sent = {name: request.headers[name] for name in FORWARDED_REQUEST_HEADERS if name in request.headers}
        bearer = signed_bearer(self.key.current(), storage.metadata.uid, self.now())
        return {
            **sent,
            "Authorization": f"Bearer {bearer}",
            "Accept-Encoding": "identity",
            "X-Request-ID": request_id,
            _FORWARDED_FOR: request.remote or "",
            "X-Forwarded-Host": request.host,
            "X-Forwarded-Proto": request.scheme,
        }

    async def _pass_on(self, request: web.Request, answer: ClientResponse, record: StreamRecord) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status, headers=_passed_on(answer.headers))
        record.status = answer.status
        await response.prepare(request)
        try:
            if request.method != "HEAD":
                await self._copy(answer, response, record)
            await response.write_eof()
        except TimeoutError:
            record.end = "idle"
        except ConnectionResetError:
            # aiohttp's error of a write is a ClientError as well.
            record.end = "client_closed"
        except ClientError:
            record.end = "accessor_failed"
        else:
            record.end = "complete"
            return response
        if request.transport is not None:
            # The rest is missing: the caller must not take it for the whole.
            request.transport.abort()
        return response

    async def _copy(self, answer: ClientResponse, response: web.StreamResponse, record: StreamRecord) -> None:
        """Copy the body; each chunk is written before the next one is read.

        Raises:
            TimeoutError: no byte was passed on for the idle timeout.
            ClientError: the accessor ended in the middle.
        """
        while True:
            async with asyncio.timeout(self.streams.limits.idle_seconds):
                data = await answer.content.readany()
                if not data:
                    return
                await response.write(data)
            record.sent += len(data)
            self.streams.bytes += len(data)


def _passed_on(headers: Mapping[str, str]) -> dict[str, str]:
    return {
        **{name: headers[name] for name in FORWARDED_RESPONSE_HEADERS if name in headers},
        **CONTENT_HEADERS,
        "Vary": "Accept, Authorization",
    }


def _failed(how: str) -> ApiError:
    message = f"the accessor of the storage {how}: retry, and look at the log of its pod"
    return ApiError(502, "accessor_failed", message, headers={"Retry-After": "5"})
