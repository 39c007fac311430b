"""Cursors: where a page of a list ended, as a text that callers hand back.

Lists are in an order in which nothing ever changes its place. So whoever follows the cursors to the end sees everything
that was there all the time, exactly once, whatever else comes and goes.
"""

import base64
import binascii
from typing import Final

from gpuruntime.meta import ObjectKey

__all__ = ["CursorError", "cursor_of", "parse_cursor"]

_LONGEST: Final = 1024


class CursorError(ValueError):
    """A text is not the cursor of any page."""


def cursor_of(last: ObjectKey) -> str:
    """The cursor of what follows an object."""
    return base64.urlsafe_b64encode(f"{last.namespace}/{last.name}".encode()).rstrip(b"=").decode()


def parse_cursor(text: str) -> ObjectKey:
    """The object after which a page begins.

    Raises:
        CursorError: it is no cursor.
    """
    try:
        padded = text.encode("ascii") + b"=" * (-len(text) % 4)
        decoded = base64.b64decode(padded, altchars=b"-_", validate=True).decode() if len(text) <= _LONGEST else ""
    except (UnicodeError, binascii.Error) as error:
        raise _no_cursor() from error
    namespace, slash, name = decoded.partition("/")
    if not slash or cursor_of(key := ObjectKey(namespace, name)) != text:
        raise _no_cursor()
    return key


def _no_cursor() -> CursorError:
    return CursorError("expected what an earlier page gave as next")
