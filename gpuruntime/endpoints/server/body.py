"""Request bodies: read up to a limit, parsed strictly, validated against their type.

Guarantees: a handler gets no body that is ambiguous or only partly valid. Rejected are bodies that are too large, too
slow, not JSON or not UTF-8; duplicate keys; numbers that would be rounded; more than 64 levels of nesting; more than
4,000 items and fields; unknown fields. Up to a hundred field errors are reported at once.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any, Final, TypeVar

import orjson
from aiohttp import web

from gpuruntime.endpoints.server.errors import CODES, MOST_FAULTS_SHOWN, ApiError, Fault, fault_of, invalid
from gpuruntime.meta import DecodeError, Struct, decode
from gpuruntime.schema import Violation, violations

__all__ = [
    "LARGEST_BODY",
    "MOST_VALUES",
    "BodyThread",
    "check_codings",
    "check_media_type",
    "decoded",
    "exceeds_values",
    "parse_object",
    "read_body",
]

S = TypeVar("S", bound=Struct)
T = TypeVar("T")

LARGEST_BODY: Final = 2**20
MOST_VALUES: Final = 4_000
"""Limit of list items plus object fields in a body. The largest valid body of any route has fewer."""
_READ_SECONDS: Final = 30.0
_DEEPEST: Final = 64
_SMALL_BODY: Final = 2**12
# One more than is shown: enough to say that there are more.
_MOST_FAULTS: Final = MOST_FAULTS_SHOWN + 1
_INTEGERS: Final = range(-(2**63), 2**64)
_OPENERS_AND_SEPARATORS: Final = (b",", b"[", b"{")
# Besides JSON: what `curl -d` sends by default, and aiohttp's default for an absent header. A web page of another site
# can send these without a CORS preflight; the checks of Origin and Sec-Fetch-Site reject that.
_TREATED_AS_JSON: Final = frozenset(
    {"application/json", "application/x-www-form-urlencoded", "application/octet-stream"}
)


class BodyThread:
    """One thread that parses and validates large bodies, so that they do not block the event loop.

    Guarantees:
        One body at a time: ten large bodies slow the loop down no more than one does. Work whose request was cancelled
        before it started is skipped.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="bodies")

    async def run_in_thread(self, work: Callable[[], T], size: int) -> T:
        """The result of `work` on a body of `size` bytes. Small bodies are not worth a thread: they run at once."""
        if size <= _SMALL_BODY:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def close(self, _app: web.Application) -> None:
        """Signal `on_cleanup`: ends the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def check_media_type(request: web.Request) -> None:
    """Check that the headers of a request allow a JSON body.

    Raises:
        ApiError: 415.
    """
    media = request.content_type
    if media not in _TREATED_AS_JSON and not media.endswith("+json"):
        raise _unsupported(f"header Content-Type: expected application/json, got {media[:80]!r}")
    if (request.charset or "utf-8").lower() not in {"utf-8", "utf8", "us-ascii"}:
        raise _unsupported(f"header Content-Type: expected charset utf-8, got {(request.charset or '')[:40]!r}")
    check_codings(request)


def check_codings(request: web.Request) -> None:
    """Check that the headers of a request declare a body that is not compressed.

    Raises:
        ApiError: 415.
    """
    for header, plain in (("Content-Encoding", "identity"), ("Transfer-Encoding", "chunked")):
        codings = ",".join(request.headers.getall(header, [])).split(",")
        if any(coding.strip().lower() not in {plain, ""} for coding in codings):
            shown = ", ".join(coding.strip() for coding in codings)[:80]
            raise _unsupported(f"header {header}: expected {plain} or none, got {shown!r}; send the body uncompressed")


async def read_body(request: web.Request, largest: int = LARGEST_BODY) -> bytes:
    """The whole body; b"" if there is none.

    Raises:
        ApiError: 413 over the limit, 408 if it takes more than 30 seconds, 400 if the connection breaks off.
    """
    if (request.content_length or 0) > largest:
        raise _too_large(largest, f"{request.content_length} bytes")
    body = bytearray()
    try:
        async with asyncio.timeout(_READ_SECONDS):
            async for chunk in request.content.iter_any():
                body += chunk
                if len(body) > largest:
                    raise _too_large(largest, "more")
                if not request.content.at_eof():
                    # The stream does not yield to the loop while it has data, and a piece may be thousands of chunks.
                    await asyncio.sleep(0)
    except TimeoutError as error:
        message = f"body: expected all of it within {_READ_SECONDS:.0f} seconds, got {len(body)} bytes"
        raise ApiError(408, CODES[408], message) from error
    except (web.RequestPayloadError, ConnectionError) as error:
        raise invalid(Fault("$", f"expected a complete body, it broke off after {len(body)} bytes")) from error
    return bytes(body)


def parse_object(data: bytes, most_values: int = MOST_VALUES) -> dict[str, Any]:
    """The JSON object of a body, of at most this number of items and fields.

    Raises:
        ApiError: the body is not a JSON object, is too complex, or is ambiguous.
    """
    if not data:
        raise invalid(Fault("$", "expected a JSON object, got an empty body"))
    if exceeds_values(data, most_values):
        raise invalid(Fault("$", f"expected at most {most_values} items and fields in all, got more"))
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise invalid(Fault("$", f"expected JSON in UTF-8: {error}")) from error
    if _is_deeper(value, _DEEPEST):
        raise invalid(Fault("$", f"expected at most {_DEEPEST} levels of nesting, got more"))
    if not isinstance(value, dict):
        raise invalid(Fault("$", f"expected a JSON object, got {_noun(value)}"))
    _reject_ambiguity(data)
    return value


def decoded(value: Mapping[str, Any], cls: type[S], as_fault: Callable[[Violation], Fault] = fault_of) -> S:
    """A JSON object decoded into its type; `as_fault` reports the violation of a rule.

    Raises:
        ApiError: 400 with every rule of the type that the object violates.
    """
    found = violations(value, cls, most=_MOST_FAULTS)
    if found:
        raise invalid(*map(as_fault, found))
    try:
        return decode(cls, value)
    except DecodeError as error:
        # The API server's rules accept 3.0 for an integer; the type does not.
        parts = (failure.rpartition(" @ $") for failure in error.failures)
        typed = (Violation(path.removeprefix("."), text.removeprefix("expected ")) for text, _, path in parts)
        raise invalid(*map(as_fault, typed)) from error


def exceeds_values(data: bytes, most: int = MOST_VALUES) -> bool:
    """Whether JSON has more than `most` list items and object fields; an empty list or object inside counts as one.

    Guarantees:
        It counts bytes and builds no values: a megabyte takes a few milliseconds, whatever it contains. For bytes that
        are not JSON the result may be either, but the part before the first syntax error never exceeds the limit.
    """
    if _count_values(data) <= most:
        return False
    # Separators inside strings do not count. Unescaped quotes delimit the strings.
    plain = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Each item or field has at most two strings, a key and a value.
    if plain.count(b'"') > 4 * most:
        return True
    return _count_values(b"".join(plain.split(b'"')[::2])) > most


def _count_values(data: bytes) -> int:
    return sum(data.count(mark) for mark in _OPENERS_AND_SEPARATORS)


def _reject_ambiguity(data: bytes) -> None:
    """Reject what orjson accepts silently: it keeps the last of two equal keys, and rounds integers above 64 bits.

    The standard library is safe here: the nesting is known to be shallow, and long digit strings are not converted.
    """

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, item in items:
            if key in found:
                raise invalid(Fault("$", f"expected every key once, got {key[:80]!r} twice in one object"))
            found[key] = item
        return found

    def integer(digits: str) -> None:
        # 64 bits have at most 20 digits and a sign.
        if len(digits) > 21 or int(digits) not in _INTEGERS:
            raise invalid(Fault("$", f"expected integers of at most 64 bits, got {digits[:40]}"))

    json.loads(data, object_pairs_hook=pairs, parse_int=integer, parse_float=lambda _: None)


def _is_deeper(value: Any, levels: int) -> bool:
    """Whether lists and objects are nested deeper than this. Not recursive, so that deep input cannot overflow."""
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


def _too_large(largest: int, found: str) -> ApiError:
    message = f"body: expected at most {largest} bytes, got {found}"
    return ApiError(413, CODES[413], message)


def _unsupported(message: str) -> ApiError:
    return ApiError(415, CODES[415], message)
