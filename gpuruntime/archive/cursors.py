"""Cursors of lists: the last result of a page, and a digest of the query, so that a cursor serves no other query."""

import base64
import binascii
import re
from hashlib import sha256
from typing import Final

from attrs import frozen

from gpuruntime.api.invocations import ArchiveCursorError, ArchiveQuery

__all__ = ["Cursor", "cursor_text", "parse_cursor"]

_FORM: Final = re.compile(r"(-?[0-9]{1,18})\.([0-9]{1,18})\.([0-9a-f]{12})")


@frozen
class Cursor:
    """The last result of a page: the time of its end in microseconds, and its number."""

    ended: int
    number: int


def cursor_text(last: Cursor, query: ArchiveQuery) -> str:
    """The cursor of the page after a result."""
    text = f"{last.ended}.{last.number}.{_digest(query)}"
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def parse_cursor(query: ArchiveQuery) -> Cursor | None:
    """The result after which the page of a query begins; None for the first page.

    Raises:
        ArchiveCursorError: the text is no cursor, or one of another query.
    """
    text = query.cursor
    if text is None:
        return None
    try:
        decoded = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
        parts = _FORM.fullmatch(decoded.decode("ascii"))
    except (UnicodeError, binascii.Error):
        parts = None
    if parts is None or parts[3] != _digest(query):
        raise ArchiveCursorError("expected the `next` of an earlier page of the same query")
    return Cursor(int(parts[1]), int(parts[2]))


def _digest(query: ArchiveQuery) -> str:
    """The filters of a query; pages of one list may differ in length."""
    filters = (query.namespace, query.function, query.state, query.since, query.until)
    return sha256(repr(filters).encode()).hexdigest()[:12]
