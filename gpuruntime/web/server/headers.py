"""What the headers of a request say: which operation it is, and which state of an object it knows."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

from multidict import MultiMapping

from gpuruntime.web.server.errors import CODES, ApiError, Fault, invalid
from gpuruntime.web.server.route import NOT_OLDER_THAN, Idempotency

__all__ = ["IDEMPOTENCY_KEY", "OPERATION_ID", "at_least", "if_match", "matches_any", "operation_id"]

IDEMPOTENCY_KEY: Final = "Idempotency-Key"
OPERATION_ID: Final = "operationID"
"""The field of a body, or the query parameter of a DELETE, that says the same."""

# As the Operation that records it has it.
_ID: Final = re.compile(r"[!-~]{1,253}")
_VERSION: Final = re.compile(r"[1-9][0-9]{0,39}")
_STRONG_TAG: Final = re.compile(r'"([!#-~]{1,253})"')
_TAGS: Final = re.compile(r'(?:W/)?"([!#-~]*)"')


def operation_id(
    headers: MultiMapping[str], in_body: Any, idempotency: Idempotency, in_query: Sequence[str] = ()
) -> str:
    """The operationID of a write, from its header, its query or its body; a new one if none has to be there.

    Raises:
        ApiError: they differ, it is not one, or none is there that has to be.
    """
    if len(in_query) > 1:
        raise invalid(Fault(f"?{OPERATION_ID}", f"expected it once, got it {len(in_query)} times"))
    places = {
        f"header {IDEMPOTENCY_KEY}": _single(headers, IDEMPOTENCY_KEY),
        f"?{OPERATION_ID}": in_query[0] if in_query else None,
        f"$.{OPERATION_ID}": in_body,
    }
    given = {place: found for place, found in places.items() if found is not None}
    if not given and idempotency is Idempotency.REQUIRED:
        message = f"expected one, here or in the header {IDEMPOTENCY_KEY}, so that the request can be sent again safely"
        raise invalid(Fault(f"$.{OPERATION_ID}", message, "required"))
    wrong = [place for place, found in given.items() if not (isinstance(found, str) and _ID.fullmatch(found))]
    if wrong:
        raise invalid(*(Fault(place, "expected 1 to 253 visible ASCII characters, as a string") for place in wrong))
    (first, named), *others = given.items() or [("", f"auto-{uuid4()}")]
    differing = [place for place, found in others if found != named]
    if differing:
        raise invalid(*(Fault(place, f"expected the same as in {first}, or only one of them") for place in differing))
    return str(named)


def if_match(headers: MultiMapping[str]) -> str | None:
    """The version that a write is about; None for any.

    Raises:
        ApiError: 400 if it names several, 412 if it can match none.
    """
    named = _single(headers, "If-Match")
    wanted = "*" if named is None else named.strip()
    if wanted == "*":
        return None
    if wanted.startswith("W/"):
        raise ApiError(412, CODES[412], f"header If-Match: expected a strong ETag, got the weak one {wanted[:80]!r}")
    tag = _STRONG_TAG.fullmatch(wanted)
    if tag is None:
        raise invalid(Fault("header If-Match", f"expected one ETag in double quotes, or *, got {wanted[:80]!r}"))
    return tag[1]


def matches_any(headers: Mapping[str, str], etag: str) -> bool:
    """Whether the reader has this state already (If-None-Match)."""
    known = headers.get("If-None-Match", "")
    return known.strip() == "*" or etag.removeprefix("W/").strip('"') in _TAGS.findall(known)


def at_least(headers: MultiMapping[str]) -> str:
    """The resourceVersion that an answer must not be older than; "" if any will do.

    Raises:
        ApiError: it is none.
    """
    version = _single(headers, NOT_OLDER_THAN)
    if version is not None and _VERSION.fullmatch(version) is None:
        raise invalid(Fault(f"header {NOT_OLDER_THAN}", f"expected a resourceVersion, got {version[:80]!r}"))
    return version or ""


def _single(headers: MultiMapping[str], name: str) -> str | None:
    """The header of this name; None if there is none.

    Raises:
        ApiError: there are several, of which only one can be meant.
    """
    found = headers.getall(name, [])
    if len(found) > 1:
        raise invalid(Fault(f"header {name}", f"expected it once, got it {len(found)} times"))
    return found[0] if found else None
