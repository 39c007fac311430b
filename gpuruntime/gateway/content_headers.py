"""Headers of tenants' content: a stored page cannot run a script in the origin of the gateway, nor be taken for another
type.
"""

from pathlib import PurePosixPath
from typing import Final
from urllib.parse import quote

__all__ = ["CONTENT_HEADERS", "FORWARDED_REQUEST_HEADERS", "FORWARDED_RESPONSE_HEADERS", "file_headers"]

CONTENT_HEADERS: Final = {
    # A sandboxed document has an origin of its own. Links in it work, and downloads do.
    "Content-Security-Policy": (
        "sandbox allow-downloads; default-src 'none'; style-src 'unsafe-inline'; img-src 'self';"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "private, no-cache",
}
"""On every response with content of a tenant."""

FORWARDED_REQUEST_HEADERS: Final = ("Accept", "Range", "If-Range", "If-None-Match", "If-Modified-Since")
"""The headers of a caller that reach an accessor."""
FORWARDED_RESPONSE_HEADERS: Final = (
    "Content-Type",
    "Content-Length",
    "Content-Range",
    "Content-Disposition",
    "Accept-Ranges",
    "ETag",
    "Last-Modified",
    "Location",
)
"""The headers of an accessor that reach a caller."""

_TEXT: Final = "text/plain; charset=utf-8"
_TEXT_SUFFIXES: Final = (
    *(".cfg", ".csv", ".ini", ".jsonl", ".log", ".md", ".py", ".sh", ".toml", ".tsv", ".txt", ".yaml", ".yml"),
)
_INLINE: Final = {
    **dict.fromkeys(_TEXT_SUFFIXES, _TEXT),
    ".gif": "image/gif",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".json": "application/json",
    ".png": "image/png",
    ".webp": "image/webp",
}


def file_headers(name: bytes) -> dict[str, str]:
    """Type and disposition of a file by its name: text and pictures are shown, everything else is a download."""
    shown = name.decode("utf-8", "replace")
    inline = _INLINE.get(PurePosixPath(shown).suffix.lower())
    disposition = "attachment" if inline is None else "inline"
    return {
        "Content-Type": inline or "application/octet-stream",
        "Content-Disposition": f"{disposition}; filename*=UTF-8''{quote(shown, safe='')}",
    }
