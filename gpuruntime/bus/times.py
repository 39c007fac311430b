"""Times as the server writes them: RFC 3339 with nanoseconds."""

import re
from datetime import UTC, datetime
from typing import Final

__all__ = ["read_time"]

_FRACTION: Final = re.compile(r"\.(\d+)")


def read_time(text: str) -> datetime:
    """The time, cut to microseconds.

    Raises:
        ValueError: the text is not a time.
    """
    return datetime.fromisoformat(_FRACTION.sub(lambda found: f".{found[1][:6]:0<6}", text)).astimezone(UTC)
