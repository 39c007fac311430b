"""Bodies of requests: read up to a limit, parsed without mercy, checked by the rules of their type.

Guarantees: what is not wholly understood is refused. Too long, too slow, no JSON, not UTF-8, a key that is there twice,
numbers that would be rounded, deeper than 64 levels, more than 4,000 items and fields, fields that the type does not
know: nothing reaches a handler. The faults of fields, up to a hundred, are reported at once.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any, Final, TypeVar

import orjson
from aiohttp import web

from gpuruntime.control.definitions import violations
from gpuruntime.meta import DecodeError, Struct, decode
from gpuruntime.web.server.body_sizes import MOST_VALUES, holds_too_much
from gpuruntime.web.server.errors import CODES, MOST_FAULTS_SHOWN, ApiError, Fault, invalid

__all__ = ["LARGEST_BODY", "check_media_type", "decoded", "parse_object", "read_body"]

S = TypeVar("S", bound=Struct)

LARGEST_BODY: Final = 2**20
_READ_SECONDS: Final = 30.0
_DEEPEST: Final = 64
# One more than is shown: enough to say that there are more.
_MOST_FAULTS: Final = MOST_FAULTS_SHOWN + 1
_EXACT: Final = range(-(2**63), 2**64)
# What `curl -d` says of any body, and what no header at all means to aiohttp. A page of a stranger can send them too,
# but that is caught by where the request comes from.
_TAKEN_FOR_JSON: Final = frozenset(
    {"application/json", "application/x-www-form-urlencoded", "application/octet-stream"}
)


def _json_path(path: str) -> str:
    return f"$.{path}" if path else "$"


def check_media_type(request: web.Request) -> None:
    """Pass if the body can be JSON by its headers.

    Raises:
        ApiError: 415.
    """
    media = request.content_type
    if media not in _TAKEN_FOR_JSON and not media.endswith("+json"):
        raise _unsupported(f"content type {media[:80]!r}: expected application/json")
    if (request.charset or "utf-8").lower() not in {"utf-8", "utf8", "us-ascii"}:
        raise _unsupported(f"charset {(request.charset or '')[:40]!r}: expected utf-8")
    for header, plain in (("Content-Encoding", "identity"), ("Transfer-Encoding", "chunked")):
        codings = ",".join(request.headers.getall(header, [])).split(",")
        if any(coding.strip().lower() not in {plain, ""} for coding in codings):
            shown = ", ".join(coding.strip() for coding in codings)[:80]
            raise _unsupported(f"header {header}: expected {plain} or none, got {shown!r}; send the body uncompressed")


async def read_body(request: web.Request) -> bytes:
    """The whole body; b"" if there is none.

    Raises:
        ApiError: 413 over the limit, 408 if it does not come in 30 seconds, 400 if it breaks off.
    """
    if (request.content_length or 0) > LARGEST_BODY:
        raise _too_large(f"{request.content_length} bytes")
    body = bytearray()
    try:
        async with asyncio.timeout(_READ_SECONDS):
            async for chunk in request.content.iter_any():
                body += chunk
                if len(body) > LARGEST_BODY:
                    raise _too_large("more")
                # The stream does not wait while it has something, and each piece may have been thousands of chunks.
                await asyncio.sleep(0)
    except TimeoutError as error:
        message = f"body: expected it within {_READ_SECONDS:.0f} seconds, got {len(body)} bytes of it"
        raise ApiError(408, CODES[408], message) from error
    except (web.RequestPayloadError, ConnectionError) as error:
        raise invalid(Fault("$", f"expected a whole body, it broke off after {len(body)} bytes")) from error
    return bytes(body)


def parse_object(data: bytes) -> dict[str, Any]:
    """The JSON object that a body is.

    Raises:
        ApiError: it is none, or one that could be understood in two ways.
    """
    if not data:
        raise invalid(Fault("$", "expected a JSON object, got an empty body"))
    if holds_too_much(data):
        raise invalid(Fault("$", f"expected at most {MOST_VALUES} items and fields in all, got more"))
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise invalid(Fault("$", f"expected JSON in UTF-8: {error}")) from error
    if _is_deeper(value, _DEEPEST):
        raise invalid(Fault("$", f"expected at most {_DEEPEST} levels of nesting, got more"))
    if not isinstance(value, dict):
        raise invalid(Fault("$", f"expected a JSON object, got {_noun(value)}"))
    _refuse_ambiguity(data)
    return value


def decoded(value: Mapping[str, Any], cls: type[S], name: Callable[[str], str] = _json_path) -> S:
    """The typed form of a JSON object; `name` makes the path of a field for whoever sent it.

    Raises:
        ApiError: 400 with every rule of the type that it breaks.
    """
    found = violations(value, cls, most=_MOST_FAULTS)
    if found:
        raise invalid(*(Fault(name(one.path), f"expected {one.expected}, got {one.found}", one.rule) for one in found))
    try:
        return decode(cls, value)
    except DecodeError as error:
        # What the rules of the API server let pass and a type does not: 3.0 where a whole number is meant.
        faults = (failure.rpartition(" @ $") for failure in error.failures)
        raise invalid(*(Fault(name(path.removeprefix(".")), text) for text, _, path in faults)) from error


def _refuse_ambiguity(data: bytes) -> None:
    """Tell what orjson does not: it keeps the last of two equal keys, and rounds integers of more than 64 bits.

    The standard library is safe here: the nesting is known to be shallow, and no digits are converted that could cost.
    """

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, item in items:
            if key in found:
                raise invalid(Fault("$", f"expected every key once, got {key[:80]!r} twice in one object"))
            found[key] = item
        return found

    def whole(digits: str) -> None:
        # 64 bits have 20 digits and a sign.
        if len(digits) > 21 or int(digits) not in _EXACT:
            raise invalid(Fault("$", f"expected integers of at most 64 bits, got {digits[:40]}"))

    json.loads(data, object_pairs_hook=pairs, parse_int=whole, parse_float=lambda _: None)


def _is_deeper(value: Any, levels: int) -> bool:
    """Whether it has more levels of lists and objects. Not recursive: that is the point."""
    level = [value]
    for _ in range(levels + 1):
        level = list(chain.from_iterable(_children(item) for item in level))
        if not level:
            return False
    return True


def _children(value: Any) -> list[Any]:
    match value:
        case dict():
            return list(value.values())
        case list():
            return value
        case _:
            return []


def _noun(value: Any) -> str:
    return {list: "a list", str: "a string", bool: "a boolean", type(None): "null"}.get(type(value), "a number")


def _too_large(found: str) -> ApiError:
    message = f"body: expected at most {LARGEST_BODY} bytes, got {found}"
    return ApiError(413, CODES[413], message)


def _unsupported(message: str) -> ApiError:
    return ApiError(415, CODES[415], message)
