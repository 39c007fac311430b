"""docs/openapi.json, generated from the routes. A breaking change must be acknowledged.

A change that breaks callers is written only if its sentence is in docs/openapi-breaks.txt. It also belongs in
CHANGELOG.md.
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

__all__ = ["ACCEPTED", "DOCUMENT", "described", "unacknowledged_breaks", "update"]

ROOT: Final = Path(__file__).resolve().parents[2]
DOCUMENT: Final = ROOT / "docs" / "openapi.json"
ACCEPTED: Final = ROOT / "docs" / "openapi-breaks.txt"


def described() -> dict[str, Any]:
    """The OpenAPI document of the current routes."""

    async def describe() -> dict[str, Any]:
        return openapi_document(build_manager(OFFLINE_CREDENTIALS).api.routes)

    return asyncio.run(describe())


def unacknowledged_breaks(new: dict[str, Any]) -> tuple[str, ...]:
    """The changes that break callers of the checked-in document and are not acknowledged."""
    if not DOCUMENT.exists():
        return ()
    marked = ACCEPTED.read_text(encoding="utf-8").splitlines()
    changes = breaking_changes(orjson.loads(DOCUMENT.read_bytes()), new)
    return tuple(change for change in changes if change not in marked)


def update(*, check: bool) -> int:
    """Write the document, or only check it with `check`; 1 if it is stale or has an unacknowledged break."""
    new = described()
    breaks = unacknowledged_breaks(new)
    for change in breaks:
        print(f"breaking: {change}", file=sys.stderr)
    if breaks:
        print(
            f"revert the change, or add these sentences to {ACCEPTED.relative_to(ROOT)} and CHANGELOG.md",
            file=sys.stderr,
        )
        return 1
    text = orjson.dumps(new, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()
    generated = Generated("", {DOCUMENT: text})
    lines = generated.stale() if check else generated.write()
    for line in lines:
        print(line, file=sys.stderr if check else sys.stdout)
    return 1 if check and lines else 0
