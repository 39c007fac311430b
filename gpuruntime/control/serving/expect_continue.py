"""`Expect: 100-continue`: the body of a request is asked for when it is first read, and not before."""

from collections.abc import Callable
from typing import Any, Final

from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import AsyncStreamIterator, StreamReader
from multidict import CIMultiDict, CIMultiDictProxy

__all__ = ["GO_ON", "LateBody", "expects_to_be_asked", "without_expect"]

GO_ON: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_READS: Final = frozenset(
    {"iter_any", "iter_chunked", "iter_chunks", "read", "readany", "readchunk", "readexactly", "readline", "readuntil"}
)


def expects_to_be_asked(message: RawRequestMessage) -> bool:
    """Whether the sender holds the body back until it is asked for."""
    return message.headers.get("Expect", "").lower() == "100-continue"


def without_expect(message: RawRequestMessage) -> RawRequestMessage:
    """The same request for an application: aiohttp would ask for the body before any handler runs."""
    headers = CIMultiDict(message.headers)
    headers.popall("Expect")
    return message._replace(headers=CIMultiDictProxy(headers))


class LateBody:
    """The body of a request, which calls `ask` before it is read for the first time. Else it is the body itself."""

    def __init__(self, body: StreamReader, ask: Callable[[], None]) -> None:
        self._body = body
        self._ask = ask
        self._asked = False

    def __getattr__(self, name: str) -> Any:
        if name in _READS:
            self._ask_once()
        return getattr(self._body, name)

    def __aiter__(self) -> AsyncStreamIterator[bytes]:
        self._ask_once()
        return self._body.__aiter__()

    def _ask_once(self) -> None:
        if not self._asked:
            self._asked = True
            self._ask()
