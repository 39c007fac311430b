"""What the headers of a request say: which operation it is, and which state of an object it knows."""

import re
from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

from multidict import MultiMapping

from gpuruntime.web.errors import CODES, ApiError, Fault, invalid
from gpuruntime.web.routing import NOT_OLDER_THAN, Idempotency

__all__ = ["IDEMPOTENCY_KEY", "OPERATION_ID", "at_least", "if_match", "matches_any", "operation_id"]

IDEMPOTENCY_KEY: Final = "Idempotency-Key"
OPERATION_ID: Final = "operationID"
"""The field of a body that says the same."""

# As the Operation that records it has it.
_ID: Final = re.compile(r"[!-~]{1,253}")
_VERSION: Final = re.compile(r"[1-9][0-9]{0,39}")
_STRONG_TAG: Final = re.compile(r'"([!#-~]{1,253})"')
_TAGS: Final = re.compile(r'(?:W/)?"([!#-~]*)"')


def operation_id(headers: MultiMapping[str], in_body: Any, idempotency: Idempotency) -> str:
    """The operationID of a write, from its header or its body, whichever has it; a new one if none has to.

    Raises:
        ApiError: they differ, it is not one, or none is there that has to be.
    """
    in_header = _single(headers, IDEMPOTENCY_KEY)
    faults = []
    if in_header is not None and _ID.fullmatch(in_header) is None:
        faults.append(Fault(f"header {IDEMPOTENCY_KEY}", "expected 1 to 253 visible ASCII characters"))
    if in_body is not None and not (isinstance(in_body, str) and _ID.fullmatch(in_body)):
        faults.append(Fault(f"$.{OPERATION_ID}", "expected a string of 1 to 253 visible ASCII characters"))
    if not faults and None not in (in_header, in_body) and in_header != in_body:
        faults.append(Fault(f"$.{OPERATION_ID}", f"expected the same as in the header {IDEMPOTENCY_KEY}, or only one"))
    if faults:
        raise invalid(*faults)
    found: str | None = in_body if in_body is not None else in_header
    if found is None and idempotency is Idempotency.REQUIRED:
        message = f"expected one, here or in the header {IDEMPOTENCY_KEY}, so that the request can be sent again safely"
        raise invalid(Fault(f"$.{OPERATION_ID}", message, "required"))
    return found if found is not None else f"auto-{uuid4()}"


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
