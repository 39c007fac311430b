"""Listings of directories, as JSON for programs and HTML for people."""

import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from html import escape
from itertools import islice
from typing import Any, Final

import orjson
from attrs import frozen

from gpuruntime.gateway.volume_paths import quoted
from gpuruntime.meta import format_seconds

__all__ = ["MOST_ENTRIES", "Entry", "Listing", "as_html", "as_json", "list_directory"]

MOST_ENTRIES: Final = 10_000
"""The most entries of a directory that are listed."""
_STYLE: Final = (
    "body{font:15px system-ui,sans-serif;margin:2em}td{padding:.1em 1.5em .1em 0}td.n{text-align:right}"
    "@media(prefers-color-scheme:dark){body{background:#161b22;color:#f0f3f6}a{color:#6ea8fe}}"
)


@frozen
class Entry:
    """An entry of a directory. `type` is file, directory, link or other; only a file has a size."""

    name: bytes
    type: str
    size: int | None
    modified: str

    @property
    def shown(self) -> str:
        return self.name.decode("utf-8", "replace")

    @property
    def href(self) -> str:
        """Its address relative to the listing. It begins with "./", because a name may look like a URL."""
        return f"./{quoted(self.name)}{'/' * (self.type == 'directory')}"


@frozen
class Listing:
    """The entries of a directory, directories first. `is_truncated` says that there are more."""

    entries: tuple[Entry, ...]
    is_truncated: bool = False


def list_directory(fd: int) -> Listing:
    """The listing of an open directory. What is deleted meanwhile is left out."""
    with os.scandir(fd) as found:
        entries = list(islice(_entries(found), MOST_ENTRIES + 1))
    kept = sorted(entries[:MOST_ENTRIES], key=lambda entry: (entry.type != "directory", entry.name))
    return Listing(tuple(kept), is_truncated=len(entries) > MOST_ENTRIES)


def _entries(found: "Iterator[os.DirEntry[str]]") -> Iterator[Entry]:
    for entry in found:
        try:
            state = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        kind = _type(state.st_mode)
        size = state.st_size if kind == "file" else None
        modified = format_seconds(datetime.fromtimestamp(int(state.st_mtime), UTC))
        yield Entry(os.fsencode(entry.name), kind, size, modified)


def _type(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "link" if stat.S_ISLNK(mode) else "other"


def as_json(listing: Listing) -> bytes:
    entries: list[dict[str, Any]] = [
        {
            "name": entry.shown,
            "type": entry.type,
            **({} if entry.size is None else {"size": entry.size}),
            "modified": entry.modified,
            "href": entry.href,
        }
        for entry in listing.entries
    ]
    return orjson.dumps({"data": entries, "truncated": listing.is_truncated})


def as_html(listing: Listing, *, is_root: bool) -> bytes:
    rows = [] if is_root else ['<tr><td><a href="../">../</a></td><td></td><td></td></tr>']
    rows += [
        f'<tr><td><a href="{escape(entry.href)}">{escape(entry.shown)}{"/" * (entry.type == "directory")}</a></td>'
        f'<td class="n">{"" if entry.size is None else entry.size}</td><td>{entry.modified}</td></tr>'
        for entry in listing.entries
    ]
    more = f"<p>Only the first {MOST_ENTRIES} entries are listed.</p>" if listing.is_truncated else ""
    page = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Files</title><style>{_STYLE}</style></head>'
        f"<body><table>{''.join(rows)}</table>{more}</body></html>"
    )
    return page.encode()
