"""RFC 3339 timestamps as Kubernetes writes them: in UTC, with whole seconds (`Time`) or microseconds (`MicroTime`)."""

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

__all__ = ["TimestampError", "format_micros", "format_seconds", "parse_timestamp"]

_RFC3339: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})"
    r"(?:\.([0-9]+))?(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)


class TimestampError(ValueError):
    """A string is not an RFC 3339 timestamp."""


def parse_timestamp(text: str) -> datetime:
    """Parse a timestamp to a datetime in UTC, truncated to microseconds.

    Raises:
        TimestampError: not an RFC 3339 timestamp, or outside the years 1 to 9999.
    """
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise TimestampError(f"expected a timestamp such as 2026-01-02T03:04:05Z, got {text!r}")
    *whole, fraction, sign, hours, minutes = match.groups()
    try:
        zone = UTC if sign is None else _offset(sign, int(hours), int(minutes))
        year, month, day, hour, minute, second = map(int, whole)
        micros = int((fraction or "0")[:6].ljust(6, "0"))
        return datetime(year, month, day, hour, minute, second, micros, zone).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise TimestampError(f"expected a valid date and time, got {text!r}: {error}") from error


def format_seconds(instant: datetime) -> str:
    """Format as `metav1.Time`, such as "2026-01-02T03:04:05Z", truncated to seconds.

    Raises:
        ValueError: the datetime has no time zone.
    """
    return _utc(instant).isoformat(timespec="seconds") + "Z"


def format_micros(instant: datetime) -> str:
    """Format as `metav1.MicroTime`, such as "2026-01-02T03:04:05.000000Z", its only accepted form.

    Raises:
        ValueError: the datetime has no time zone.
    """
    return _utc(instant).isoformat(timespec="microseconds") + "Z"


def _offset(sign: str, hours: int, minutes: int) -> timezone:
    if hours > 23 or minutes > 59:
        raise ValueError("the offset must be below 24:00")
    offset = timedelta(hours=hours, minutes=minutes)
    return timezone(-offset if sign == "-" else offset)


def _utc(instant: datetime) -> datetime:
    if instant.tzinfo is None:
        raise ValueError(f"expected a datetime with a time zone, got {instant.isoformat()}")
    return instant.astimezone(UTC).replace(tzinfo=None)
