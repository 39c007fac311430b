"""A frame is one binary WebSocket message: the length of a JSON header in four bytes, the header, and a body."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import orjson
from attrs import frozen

from gpuruntime.meta import DecodeError, Struct, decode, encode

__all__ = ["FRAME_LIMIT", "PROTOCOL_VERSION", "Frame", "ProtocolError", "decode_frame", "encode_frame"]

PROTOCOL_VERSION: Final = 1
FRAME_LIMIT: Final = 9 * 2**20
"""Most bytes of a frame: the largest payload of NATS, and its header."""

_LENGTH_BYTES: Final = 4


class ProtocolError(Exception):
    """The other side sent something that is no frame of this protocol. The connection is closed."""


@frozen
class Frame(Struct):
    """A frame. `TYPE` is the field `type` of its header."""

    TYPE: ClassVar[str]


def encode_frame(frame: Frame, body: bytes = b"") -> bytes:
    """The bytes of a frame."""
    header = orjson.dumps({"type": frame.TYPE, **encode(frame)})
    return b"".join((len(header).to_bytes(_LENGTH_BYTES, "big"), header, body))


def decode_frame(data: bytes, types: Mapping[str, type[Frame]]) -> tuple[Frame, bytes]:
    """The frame and its body. Unknown fields of the header are ignored: the other side may be newer.

    Raises:
        ProtocolError: it is none of the given types of frames, or malformed.
    """
    end = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "big")
    if len(data) < _LENGTH_BYTES or len(data) < end:
        raise ProtocolError(f"expected a header of {end - _LENGTH_BYTES} bytes, got a frame of {len(data)} bytes")
    try:
        header: Any = orjson.loads(data[_LENGTH_BYTES:end])
    except orjson.JSONDecodeError as error:
        raise ProtocolError(f"expected a header in JSON: {error}") from error
    kind = header.pop("type", None) if isinstance(header, dict) else None
    cls = types.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise ProtocolError(f"expected a frame of the type {', '.join(sorted(types))}, got {kind!r}")
    try:
        return decode(cls, header), data[end:]
    except DecodeError as error:
        raise ProtocolError(f"malformed frame {kind}: {error}") from error
