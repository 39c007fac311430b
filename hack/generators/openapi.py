"""The checked-in description of the API: written from the routes, and never with a break that nobody owned up to.

docs/openapi.json is what callers were promised. A change that breaks one of them is written only if its sentence is in
docs/openapi-breaks.txt; it belongs into CHANGELOG.md as well.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any, Final

import orjson

from gpuruntime.control.permissions.offline_credentials import OFFLINE_CREDENTIALS
from gpuruntime.processes.generate.files import Generated
from gpuruntime.processes.manager import build_manager
from gpuruntime.web.openapi.document import openapi_document
from hack.generators.openapi_changes import breaking_changes

__all__ = ["ACCEPTED", "DOCUMENT", "described", "unmarked_breaks", "update"]

ROOT: Final = Path(__file__).resolve().parents[2]
DOCUMENT: Final = ROOT / "docs" / "openapi.json"
ACCEPTED: Final = ROOT / "docs" / "openapi-breaks.txt"


def described() -> dict[str, Any]:
    """The description of the product's API as it is now."""

    async def describe() -> dict[str, Any]:
        return openapi_document(build_manager(OFFLINE_CREDENTIALS).api.routes)

    return asyncio.run(describe())


def unmarked_breaks(new: dict[str, Any]) -> tuple[str, ...]:
    """What breaks callers who were written for the checked-in description, and is not marked as meant."""
    if not DOCUMENT.exists():
        return ()
    marked = ACCEPTED.read_text(encoding="utf-8").splitlines()
    return tuple(told for told in breaking_changes(orjson.loads(DOCUMENT.read_bytes()), new) if told not in marked)


def update(*, check: bool) -> int:
    """Write the description, or with `check` only look at it: 1 if it is stale or breaks somebody."""
    new = described()
    breaks = unmarked_breaks(new)
    for told in breaks:
        print(f"breaking: {told}", file=sys.stderr)
    if breaks:
        print(f"mend it, or put these sentences into {ACCEPTED.relative_to(ROOT)} and CHANGELOG.md", file=sys.stderr)
        return 1
    text = orjson.dumps(new, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()
    generated = Generated("", {DOCUMENT: text})
    lines = generated.stale() if check else generated.write()
    for line in lines:
        print(line, file=sys.stderr if check else sys.stdout)
    return 1 if check and lines else 0
