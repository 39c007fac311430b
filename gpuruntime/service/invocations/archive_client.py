"""The archive over HTTP: what the result store answers, for processes without a store of their own.

Who dies, or is away, and what happens then:

==========================  ===========================================================================================
the result store            ArchiveUnavailableError, at once or after five seconds; the next call tries again
its certificate, or our     the files are read again: the token for each request, the authorities for each connection
token, is replaced          pool, which is made anew when the file has changed
==========================  ===========================================================================================
"""

import asyncio
import ssl
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote

import aiohttp
from attrs import frozen

from gpuruntime.api.invocations import (
    ARCHIVE_PREFIX,
    ArchiveCursorError,
    ArchivedInvocation,
    ArchivePage,
    ArchiveQuery,
    ArchiveUnavailableError,
    InvocationKey,
    archive_body_path,
    archive_path,
)
from gpuruntime.meta import DecodeError, decode, encode, parse_json

__all__ = ["ArchiveClient", "ArchiveClientOptions"]

_SECONDS: Final = 5.0
_CONNECT_SECONDS: Final = 2.0
_LARGEST_ANSWER: Final = 16 * 2**20
_PARTS: Final = 64 * 1024


@frozen
class ArchiveClientOptions:
    """Where the result store is. Files are named, not read. Without `ca_file` the system's authorities are trusted."""

    url: str
    token_file: Path | None = None
    ca_file: Path | None = None


class ArchiveClient:
    """See `gpuruntime.api.invocations.Archive`. Used as an `async with` block, at whose end its connections close.

    Guarantees:
        Every failure is an ArchiveUnavailableError that names the address and the reason, and never the token.
    """

    def __init__(self, options: ArchiveClientOptions) -> None:
        self._options = options
        self._session: aiohttp.ClientSession | None = None
        self._authorities = b""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    async def run(self) -> None:
        """Keep connections until cancelled, then close them."""
        async with self:
            await asyncio.get_running_loop().create_future()

    async def get(self, key: InvocationKey) -> ArchivedInvocation | None:
        status, body = await self._ask(archive_path(key))
        if status == 404:
            return None
        return self._decoded(self._data(status, body).get("data"))

    async def body(self, key: InvocationKey) -> bytes | None:
        status, body = await self._ask(archive_body_path(key))
        if status in {404, 410}:
            return None
        if status != 200:
            raise self._unexpected(status)
        return body

    async def list(self, query: ArchiveQuery) -> ArchivePage:
        given = {name: str(value) for name, value in encode(query).items() if value is not None}
        status, body = await self._ask(f"{ARCHIVE_PREFIX}/invocations", given)
        if status == 400 and query.cursor is not None:
            raise ArchiveCursorError("expected the `next` of an earlier page of the same query")
        page = self._data(status, body)
        items = page.get("data")
        if not isinstance(items, list):
            raise self._unexpected(status)
        return ArchivePage(tuple(map(self._decoded, items)), str(page.get("next", "")))

    async def _ask(self, path: str, query: dict[str, str] | None = None) -> tuple[int, bytes]:
        try:
            headers = self._headers()
            session = await self._connected()
            async with session.get(
                f"{self._options.url}{quote(path)}", params=query, headers=headers, allow_redirects=False
            ) as answer:
                return answer.status, await self._read(answer)
        except TimeoutError as error:
            raise self._unavailable(f"no answer within {_SECONDS:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise self._unavailable(str(error) or type(error).__name__) from error

    async def _read(self, answer: aiohttp.ClientResponse) -> bytes:
        body = bytearray()
        async for part in answer.content.iter_chunked(_PARTS):
            body += part
            if len(body) > _LARGEST_ANSWER:
                raise ValueError(f"expected an answer of at most {_LARGEST_ANSWER} bytes, got more")
        return bytes(body)

    def _headers(self) -> dict[str, str]:
        file = self._options.token_file
        if file is None:
            return {}
        token = file.read_text().strip()
        if not token or not token.isascii() or not token.isprintable():
            raise ValueError(f"{file}: expected a token of one line")
        return {"Authorization": f"Bearer {token}"}

    async def _connected(self) -> aiohttp.ClientSession:
        """The session; another one if the file of authorities has changed."""
        file = self._options.ca_file
        authorities = b"" if file is None else file.read_bytes()
        if self._session is not None and authorities == self._authorities:
            return self._session
        await self._close()
        context = None if file is None else ssl.create_default_context(cadata=authorities.decode())
        self._authorities = authorities
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=True if context is None else context),
            timeout=aiohttp.ClientTimeout(total=_SECONDS, connect=_CONNECT_SECONDS),
            auto_decompress=False,
        )
        return self._session

    async def _close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _data(self, status: int, body: bytes) -> dict[str, Any]:
        if status != 200:
            raise self._unexpected(status)
        try:
            found = parse_json(body, "answer of the result store")
        except DecodeError as error:
            raise self._unavailable(str(error)) from error
        if not isinstance(found, dict):
            raise self._unexpected(status)
        return found

    def _decoded(self, value: Any) -> ArchivedInvocation:
        try:
            return decode(ArchivedInvocation, value)
        except DecodeError as error:
            raise self._unavailable(str(error)) from error

    def _unexpected(self, status: int) -> ArchiveUnavailableError:
        hint = "; check resultStore.tokenFile" if status in {401, 403} else ""
        return self._unavailable(f"expected an invocation, got status {status}{hint}")

    def _unavailable(self, reason: str) -> ArchiveUnavailableError:
        return ArchiveUnavailableError(f"the result store at {self._options.url}: {reason}")
