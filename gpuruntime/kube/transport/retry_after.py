"""The Retry-After header: seconds or an HTTP date."""

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

__all__ = ["parse_http_date", "parse_retry_after"]

_SECONDS: Final = re.compile(r"[0-9]{1,9}")


def parse_retry_after(value: str, now: datetime) -> float | None:
    """The seconds to wait from `now` on; 0 for a date in the past, None for an invalid value."""
    value = value.strip()
    if _SECONDS.fullmatch(value):
        return float(value)
    date = parse_http_date(value)
    return None if date is None else max(0.0, (date - now).total_seconds())


def parse_http_date(value: str) -> datetime | None:
    """The date in a header such as Date, in UTC; None if it is not a date."""
    try:
        date = parsedate_to_datetime(value)
        # All dates of HTTP are in UTC.
        return (date.replace(tzinfo=UTC) if date.tzinfo is None else date).astimezone(UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
