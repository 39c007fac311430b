"""Headers: the operationID and versions of a request, the versions and the location of a response."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import quote
from uuid import uuid4

from multidict import MultiMapping

from gpuruntime.endpoints.server.errors import CODES, ApiError, Fault, invalid
from gpuruntime.endpoints.server.route import NOT_OLDER_THAN, PREFIX, Idempotency, Page, Reply
from gpuruntime.meta import EMPTY, FrozenDict, ObjectKey, Struct, TypedObject
from gpuruntime.service.reads.reader import ReadPage, ReadResult, Reads, cursor_of

__all__ = [
    "IDEMPOTENCY_KEY",
    "OPERATION_ID",
    "at_least",
    "deletion_headers",
    "if_match",
    "location_header",
    "matches_any",
    "operation_id",
    "page_headers",
    "page_reply",
    "read_headers",
    "version_header",
    "write_headers",
]

K = TypeVar("K", bound=TypedObject)

IDEMPOTENCY_KEY: Final = "Idempotency-Key"
OPERATION_ID: Final = "operationID"
"""The body field, or the query parameter of a DELETE, that means the same as header Idempotency-Key."""

# The same rules as those of the Operation that records it.
_ID: Final = re.compile(r"[!-~]{1,253}")
_VERSION: Final = re.compile(r"[1-9][0-9]{0,39}")
_STRONG_TAG: Final = re.compile(r'"([!#-~]{1,253})"')
_TAGS: Final = re.compile(r'(?:W/)?"([!#-~]*)"')
_DELETION_SECONDS: Final = 2.0


def operation_id(
    headers: MultiMapping[str], in_body: Any, idempotency: Idempotency, in_query: Sequence[str] = ()
) -> str:
    """The operationID of a write, from its header, its query or its body; a generated one if it may be absent.

    Raises:
        ApiError: it is required and absent, it is malformed, or two of them differ.
    """
    if len(in_query) > 1:
        raise invalid(Fault(f"?{OPERATION_ID}", f"expected it once, got it {len(in_query)} times"))
    sources = {
        f"header {IDEMPOTENCY_KEY}": _single(headers, IDEMPOTENCY_KEY),
        f"?{OPERATION_ID}": in_query[0] if in_query else None,
        f"$.{OPERATION_ID}": in_body,
    }
    given = {source: value for source, value in sources.items() if value is not None}
    if not given and idempotency is Idempotency.REQUIRED:
        message = f"expected one, here or in header {IDEMPOTENCY_KEY}, so that the request can be retried safely"
        raise invalid(Fault(f"$.{OPERATION_ID}", message, "required"))
    wrong = [source for source, value in given.items() if not (isinstance(value, str) and _ID.fullmatch(value))]
    if wrong:
        raise invalid(*(Fault(source, "expected a string of 1 to 253 visible ASCII characters") for source in wrong))
    (first, chosen), *others = given.items() or [("", f"auto-{uuid4()}")]
    differing = [source for source, value in others if value != chosen]
    if differing:
        raise invalid(*(Fault(source, f"expected the same as in {first}, or only one of them") for source in differing))
    return str(chosen)


def if_match(headers: MultiMapping[str]) -> str | None:
    """The version in header If-Match; None for any version.

    Raises:
        ApiError: 400 if it is not exactly one ETag, 412 if the ETag is weak and so can match nothing.
    """
    value = _single(headers, "If-Match")
    wanted = "*" if value is None else value.strip()
    if wanted == "*":
        return None
    if wanted.startswith("W/"):
        raise ApiError(412, CODES[412], f"header If-Match: expected a strong ETag, got the weak one {wanted[:80]!r}")
    tag = _STRONG_TAG.fullmatch(wanted)
    if tag is None:
        raise invalid(Fault("header If-Match", f"expected one ETag in double quotes, or *, got {wanted[:80]!r}"))
    return tag[1]


def matches_any(headers: Mapping[str, str], etag: str) -> bool:
    """Whether header If-None-Match has this ETag."""
    known = headers.get("If-None-Match", "")
    return known.strip() == "*" or etag.removeprefix("W/").strip('"') in _TAGS.findall(known)


def at_least(headers: MultiMapping[str]) -> str:
    """The oldest resourceVersion that the response may show; "" for any.

    Raises:
        ApiError: it is malformed.
    """
    version = _single(headers, NOT_OLDER_THAN)
    if version is not None and _VERSION.fullmatch(version) is None:
        raise invalid(Fault(f"header {NOT_OLDER_THAN}", f"expected a resourceVersion, got {version[:80]!r}"))
    return version or ""


def version_header(version: str) -> Mapping[str, str]:
    """The version that a response shows; a read that sends it back sees no older state."""
    return {NOT_OLDER_THAN: version} if version else {}


def write_headers(written: TypedObject) -> FrozenDict[str, str]:
    """The headers for an object that was just written, or read live."""
    version = written.metadata.resource_version
    return FrozenDict({"ETag": f'"{version}"', **version_header(version)})


def read_headers(found: ReadResult[K]) -> FrozenDict[str, str]:
    """The headers for an object that may come from the cache. Age is the time since the API server last responded."""
    return write_headers(found.object) | {"Age": str(int(found.age))}


def page_headers(page: ReadPage[K]) -> FrozenDict[str, str]:
    """The headers for a page of a list."""
    return FrozenDict({"Age": str(int(page.age)), **version_header(page.version)})


def page_reply(page: ReadPage[K], view: Callable[[K], Struct]) -> Reply:
    """The reply with a page of a list, each object as its view."""
    views = tuple(map(view, page.items))
    return Reply(200, Page(views, "" if page.next is None else cursor_of(page.next)), page_headers(page))


async def deletion_headers(reads: Reads[K], key: ObjectKey, uid: str | None) -> FrozenDict[str, str]:
    """The headers for a deletion: the version that shows it, if the cache shows it in time."""
    is_shown = await reads.gone(key, uid or "", _DELETION_SECONDS)
    return FrozenDict(version_header(reads.informer.store.version_in(key.namespace)) if is_shown else EMPTY)


def location_header(path: str, key: ObjectKey) -> Mapping[str, str]:
    """The URL of a new object; `path` is that of its collection."""
    return {"Location": f"{PREFIX}{path}/{quote(key.name)}?namespace={quote(key.namespace)}"}


def _single(headers: MultiMapping[str], name: str) -> str | None:
    """The value of a header; None if it is absent.

    Raises:
        ApiError: the header is repeated.
    """
    found = headers.getall(name, [])
    if len(found) > 1:
        raise invalid(Fault(f"header {name}", f"expected it once, got it {len(found)} times"))
    return found[0] if found else None
