"""HTTP/1.1 messages out of a stream of bytes. No I/O: bytes go in, whole requests or responses come out.

It reads what a server and a client on one unix socket need: bodies with a length, chunked bodies, and responses that
end with the connection. What two readers could understand differently is refused, never guessed: two lengths, a length
beside chunks, folded lines, a lone CR or LF, a name that is no token.
"""

import re
from dataclasses import dataclass, field
from typing import Final

__all__ = ["HttpError", "HttpLimits", "HttpReader", "Message", "read_requests", "read_responses"]

_REQUEST: Final = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]{1,32}) ([\x21-\x7e\x80-\xff]+) HTTP/1\.([01])")
_RESPONSE: Final = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?: ([^\x00\r\n]*))?")
_FIELD: Final = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([^\x00\r\n]*)")
_LENGTH: Final = re.compile(r"[0-9]{1,18}")
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n\x00]*)?")
_MOST_FIELDS: Final = 256
_CHUNK_LINE: Final = 4096
_NO_BODY: Final = frozenset({204, 304})


class HttpError(Exception):
    """A message that cannot be read. `status` is what a server answers before it closes the connection."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class HttpLimits:
    """The largest head and body of a message, in bytes."""

    head: int = 64 * 1024
    body: int = 64 * 1024 * 1024


@dataclass
class Message:
    """A whole request or response. Names of headers are in lower case; values of repeated ones are joined by commas."""

    method: str = ""
    target: str = ""
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    keep_alive: bool = True


class HttpReader:
    """Reads messages one after another from the bytes of one connection.

    Guarantees:
        The same messages come out however the bytes are cut. Never more than a head and a body within the limits,
        and what was fed last, is held. After an HttpError the reader is of no more use.
    """

    def __init__(self, limits: HttpLimits, *, requests: bool) -> None:
        self._limits = limits
        self._requests = requests
        self._buffer = bytearray()
        self._message: Message | None = None
        self._body = bytearray()
        # The bytes of the body, or of the chunk, that are missing. None: the body ends with the connection.
        self._missing: int | None = 0
        self._chunked = False
        self._in_trailer = False
        self._wants_continue = False

    @property
    def buffered(self) -> int:
        """How many bytes wait to be read."""
        return len(self._buffer)

    @property
    def is_between_messages(self) -> bool:
        return self._message is None and not self._buffer

    def take_continue(self) -> bool:
        """Whether the client waits for "100 Continue" before it sends the body; true once for a request."""
        wanted, self._wants_continue = self._wants_continue, False
        return wanted

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def next(self) -> Message | None:
        """The next message, or None until more bytes are there.

        Raises:
            HttpError: the bytes are no message, or exceed a limit.
        """
        while True:
            if self._message is None and not self._begin():
                return None
            if not self._read_body():
                return None
            message = self._take()
            if message.status // 100 != 1:
                return message

    def end(self) -> Message | None:
        """The connection ended: the response that ends with it, or None if there is none.

        Raises:
            HttpError: it ended within a message.
        """
        if self._message is not None and self._missing is None:
            return self._take()
        if self.is_between_messages:
            return None
        raise HttpError(400, "the connection ended within a message")

    def _begin(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n", 0, self._limits.head + 4)
        if end < 0:
            if len(self._buffer) > self._limits.head:
                raise HttpError(431, f"expected a head of at most {self._limits.head} bytes")
            return False
        first, *lines = bytes(self._buffer[:end]).split(b"\r\n")
        del self._buffer[: end + 4]
        message = self._message = _request_of(first) if self._requests else _response_of(first)
        message.headers = _headers_of(lines)
        self._frame(message)
        connection = message.headers.get("connection", "").lower()
        message.keep_alive = "close" not in connection and (message.keep_alive or "keep-alive" in connection)
        return True

    def _frame(self, message: Message) -> None:
        coding, length = message.headers.get("transfer-encoding"), message.headers.get("content-length")
        self._chunked, self._missing = False, 0
        if not self._requests and (message.status in _NO_BODY or message.status // 100 == 1):
            return
        if coding is not None:
            if length is not None:
                raise HttpError(400, "expected either Transfer-Encoding or Content-Length, got both")
            if coding.lower() != "chunked":
                raise HttpError(501, f"expected Transfer-Encoding chunked, got {coding!r}")
            self._chunked = True
        elif length is not None:
            if not _LENGTH.fullmatch(length):
                raise HttpError(400, f"Content-Length: expected one number, got {length!r}")
            self._missing = int(length)
            self._check_size(self._missing)
        elif not self._requests:
            self._missing, message.keep_alive = None, False
        if self._requests and message.headers.get("expect", "").lower() == "100-continue":
            self._wants_continue = self._chunked or bool(self._missing)

    def _check_size(self, size: int) -> None:
        if size > self._limits.body:
            raise HttpError(413, f"expected a body of at most {self._limits.body} bytes, got {size} or more")

    def _read_body(self) -> bool:
        if self._missing is None:
            self._body += self._buffer
            self._buffer.clear()
            self._check_size(len(self._body))
            return False
        if not self._chunked:
            if len(self._buffer) < self._missing:
                return False
            self._body = self._buffer[: self._missing]
            del self._buffer[: self._missing]
            return True
        return self._read_chunks()

    def _read_chunks(self) -> bool:
        while self._chunked:
            if not self._read_chunk():
                return False
        return True

    def _read_chunk(self) -> bool:
        """Read a part of a chunked body; `_chunked` is false after its end. False: it takes more bytes."""
        if self._missing:
            if len(self._buffer) < self._missing + 2:
                return False
            if self._buffer[self._missing : self._missing + 2] != b"\r\n":
                raise HttpError(400, "expected a line break after a chunk")
            self._body += self._buffer[: self._missing]
            del self._buffer[: self._missing + 2]
            self._missing = 0
            return True
        line = self._line()
        if line is None:
            return False
        if self._in_trailer:
            self._in_trailer = self._chunked = bool(line)
            return True
        size = _CHUNK.fullmatch(line)
        if size is None:
            raise HttpError(400, "expected the size of a chunk in hexadecimal digits")
        self._missing = int(size[1], 16)
        self._check_size(len(self._body) + self._missing)
        self._in_trailer = self._missing == 0
        return True

    def _line(self) -> bytes | None:
        end = self._buffer.find(b"\r\n", 0, _CHUNK_LINE)
        if end < 0:
            if len(self._buffer) >= _CHUNK_LINE:
                raise HttpError(400, f"expected a line of at most {_CHUNK_LINE} bytes between chunks")
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        return line

    def _take(self) -> Message:
        message = self._message
        if message is None:
            raise AssertionError("no message was begun")
        message.body = bytes(self._body)
        self._message, self._body, self._missing, self._wants_continue = None, bytearray(), 0, False
        return message


def read_requests(limits: HttpLimits = HttpLimits()) -> HttpReader:  # noqa: B008 - frozen
    """A reader for the connection of a server."""
    return HttpReader(limits, requests=True)


def read_responses(limits: HttpLimits = HttpLimits()) -> HttpReader:  # noqa: B008 - frozen
    """A reader for the connection of a client. Interim responses are left out."""
    return HttpReader(limits, requests=False)


def _request_of(line: bytes) -> Message:
    parts = _REQUEST.fullmatch(line)
    if parts is None:
        raise HttpError(400, "expected a request line such as 'POST /invoke HTTP/1.1'")
    return Message(method=parts[1].decode(), target=parts[2].decode("latin-1"), keep_alive=parts[3] == b"1")


def _response_of(line: bytes) -> Message:
    parts = _RESPONSE.fullmatch(line)
    if parts is None:
        raise HttpError(502, "expected a status line such as 'HTTP/1.1 200 OK'")
    return Message(status=int(parts[2]), keep_alive=parts[1] == b"1")


def _headers_of(lines: list[bytes]) -> dict[str, str]:
    if len(lines) > _MOST_FIELDS:
        raise HttpError(431, f"expected at most {_MOST_FIELDS} headers, got {len(lines)}")
    headers: dict[str, str] = {}
    for line in lines:
        parts = _FIELD.fullmatch(line)
        if parts is None:
            raise HttpError(400, "expected headers such as 'Name: value', each on a line of its own")
        name, value = parts[1].decode().lower(), parts[2].rstrip(b" \t").decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers
