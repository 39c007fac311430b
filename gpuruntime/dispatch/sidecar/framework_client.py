"""HTTP requests to the framework, over its unix socket.

Each request has its own connection, so that what happened to it is never in doubt: a connection that cannot be made
means that the framework has not seen the request. One that is kept from an earlier request may be closed just then.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import quote

import aiohttp
from yarl import URL

from gpuruntime.dispatch.sidecar.contracts import FrameworkReply, FrameworkRequest

__all__ = ["FrameworkClient", "FrameworkLostError", "NotSentError", "ReplyTooLargeError"]

_CONNECT_SECONDS: Final = 10
_CANCEL_SECONDS: Final = 5
_NO_LIMIT: Final = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
# A request has the caller's headers, and no others.
_NONE_BY_ITSELF: Final = frozenset({"Accept", "Accept-Encoding", "User-Agent", "Content-Type"})
_OK: Final = 200
_SHOWN: Final = 200


class NotSentError(Exception):
    """The framework did not see the request. The message says why."""


class FrameworkLostError(Exception):
    """The connection ended before the response did. The function may have run."""


class ReplyTooLargeError(Exception):
    """The response has more bytes than are wanted."""


class FrameworkClient:
    """A client of one framework.

    A request has no time limit of its own: cancel it. Its connection is closed then, which cancels a run of our SDK.
    """

    def __init__(self, socket: Path, invoke_path: str, health_path: str) -> None:
        self._socket = socket
        self._invoke = _url(invoke_path)
        self._health = _url(health_path)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.UnixConnector(str(socket), force_close=True, limit=0),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=_NO_LIMIT,
            skip_auto_headers=_NONE_BY_ITSELF,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    @property
    def is_absent(self) -> bool:
        """Whether there is no socket, so that nothing can be asked."""
        return not self._socket.exists()

    async def invoke(self, request: FrameworkRequest, most_bytes: int) -> FrameworkReply:
        """Send an invocation, and wait for the response.

        Raises:
            NotSentError: the framework did not see it.
            FrameworkLostError: the connection ended before the response did.
            ReplyTooLargeError: the response has more than `most_bytes` bytes.
        """
        try:
            return await self._post(request.headers, request.body, most_bytes)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise NotSentError(f"the framework does not accept connections: {_sentence(error)}") from error
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise FrameworkLostError(f"the framework ended the connection: {_sentence(error)}") from error

    async def cancel(self, id_: str) -> bool:
        """Ask the framework to cancel a run; False if it answers that it does not, or that there is no such run."""
        with suppress(aiohttp.ClientError, OSError, TimeoutError):
            async with (
                asyncio.timeout(_CANCEL_SECONDS),
                self._session.post(_url(f"/cancel/{quote(id_, safe='')}"), allow_redirects=False) as response,
            ):
                return response.status == _OK
        # No answer: it may be busy with that very run.
        return True

    async def problem(self, seconds: float) -> str:
        """Why the framework is not healthy; an empty text if it is.

        Raises:
            TimeoutError: it did not answer in time.
        """
        if self.is_absent:
            return "the framework has not made its socket yet"
        try:
            async with asyncio.timeout(seconds), self._session.get(self._health, allow_redirects=False) as response:
                if response.status == _OK:
                    return ""
                text = (await response.content.read(_SHOWN)).decode(errors="replace").strip()
                return f"the health check of the framework has the status {response.status}: {text}"
        except (aiohttp.ClientError, OSError) as error:
            if isinstance(error, TimeoutError):
                raise
            return f"the framework does not answer: {_sentence(error)}"

    async def _post(self, headers: Mapping[str, str], body: bytes, most_bytes: int) -> FrameworkReply:
        async with self._session.post(self._invoke, data=body, headers=headers, allow_redirects=False) as response:
            parts, size = [], 0
            async for part in response.content.iter_any():
                size += len(part)
                if size > most_bytes:
                    raise ReplyTooLargeError
                parts.append(part)
            return FrameworkReply(response.status, _headers(response), b"".join(parts))


def _headers(response: aiohttp.ClientResponse) -> tuple[tuple[str, str], ...]:
    return tuple((_text(name), _text(value)) for name, value in response.raw_headers)


def _text(data: bytes) -> str:
    # aiohttp would leave characters in a text that no JSON can express.
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _url(path: str) -> URL:
    return URL(f"http://framework{path}", encoded=True)


def _sentence(error: BaseException) -> str:
    return str(error) or type(error).__name__
