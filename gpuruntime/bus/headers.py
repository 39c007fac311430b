"""The headers of NATS messages: lines of a name and a value after a status line, as in HTTP/1.1."""

import re
from collections.abc import Mapping
from typing import Final

from attrs import frozen

__all__ = ["NO_HEADERS", "Headers", "decode_headers", "encode_headers"]

Headers = Mapping[str, str]

NO_HEADERS: Final[Headers] = {}
_VERSION: Final = b"NATS/1.0"
_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_BREAKS: Final = re.compile(r"[\r\n\0]")


@frozen
class HeaderBlock:
    """What a block of headers says. `status` is 0 in messages of clients: only the server sends others."""

    status: int
    description: str
    headers: Headers


def encode_headers(headers: Headers) -> bytes:
    """The block of a message, with both line ends that close it.

    Raises:
        ValueError: a name is not a token, or a value has a line break.
    """
    lines = ["NATS/1.0\r\n"]
    for name, value in headers.items():
        if _NAME.fullmatch(name) is None:
            raise ValueError(f"header {name!r}: expected letters, digits and hyphens as its name")
        if _BREAKS.search(value) is not None:
            raise ValueError(f"header {name}: expected a value of one line, got {value!r}")
        lines.append(f"{name}: {value}\r\n")
    lines.append("\r\n")
    return "".join(lines).encode()


def decode_headers(block: bytes) -> HeaderBlock:
    """Read a block. Of a repeated name the first value counts; spaces around a value do not.

    Bytes that are not UTF-8 are replaced.
    """
    first, _, rest = block.partition(b"\r\n")
    status, description = 0, ""
    if len(first) > len(_VERSION):
        number, _, text = first[len(_VERSION) :].strip().partition(b" ")
        status = int(number) if number.isdigit() else 0
        description = text.decode("utf-8", "replace").strip()
    found: dict[str, str] = {}
    for line in rest.decode("utf-8", "replace").split("\r\n"):
        name, colon, value = line.partition(":")
        if colon:
            found.setdefault(name.strip(), value.strip())
    return HeaderBlock(status, description, found)
