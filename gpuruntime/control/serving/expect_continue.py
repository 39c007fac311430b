"""`Expect: 100-continue`: the interim response is sent when the application first reads the body."""

from collections.abc import Callable
from typing import Any, Final

from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import AsyncStreamIterator, StreamReader
from multidict import CIMultiDict, CIMultiDictProxy

__all__ = ["CONTINUE", "LateBody", "expects_continue", "without_expect"]

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_READS: Final = frozenset(
    {"iter_any", "iter_chunked", "iter_chunks", "read", "readany", "readchunk", "readexactly", "readline", "readuntil"}
)


def expects_continue(message: RawRequestMessage) -> bool:
    """Whether the client waits for `100 Continue` before it sends the body."""
    return message.headers.get("Expect", "").lower() == "100-continue"


def without_expect(message: RawRequestMessage) -> RawRequestMessage:
    """The request without its Expect header: aiohttp would send `100 Continue` before any handler runs."""
    headers = CIMultiDict(message.headers)
    headers.popall("Expect")
    return message._replace(headers=CIMultiDictProxy(headers))


class LateBody:
    """A proxy of a request body that calls `send_continue` before the first read."""

    def __init__(self, body: StreamReader, send_continue: Callable[[], None]) -> None:
        self._body = body
        self._send_continue = send_continue
        self._is_sent = False

    def __getattr__(self, name: str) -> Any:
        if name in _READS:
            self._send_once()
        return getattr(self._body, name)

    def __aiter__(self) -> AsyncStreamIterator[bytes]:
        self._send_once()
        return self._body.__aiter__()

    def _send_once(self) -> None:
        if not self._is_sent:
            self._is_sent = True
            self._send_continue()
