from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.meta.timestamps import TimestampError, format_micros, format_seconds, parse_timestamp

INSTANT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

zones = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
instants = st.datetimes(
    min_value=datetime(2, 1, 1),  # noqa: DTZ001  # hypothesis wants naive bounds
    max_value=datetime(9998, 1, 1),  # noqa: DTZ001  # hypothesis wants naive bounds
    timezones=zones,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-02T03:04:05Z", INSTANT),
        ("2026-01-02T03:04:05.000000Z", INSTANT),
        ("2026-01-02T04:04:05+01:00", INSTANT),
        ("2026-01-01T21:34:05-05:30", INSTANT),
        ("2026-01-02T03:04:05.1Z", INSTANT.replace(microsecond=100_000)),
        ("2026-01-02T03:04:05.123456Z", INSTANT.replace(microsecond=123_456)),
        ("2026-01-02T03:04:05.123456789Z", INSTANT.replace(microsecond=123_456)),
        ("0001-01-01T00:00:00Z", datetime(1, 1, 1, tzinfo=UTC)),
    ],
)
def test_what_go_writes_is_read(text: str, expected: datetime) -> None:
    assert parse_timestamp(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-01-02",
        "2026-01-02T03:04:05",
        "2026-01-02 03:04:05Z",
        "2026-01-02T03:04:05z",
        "2026-01-02T03:04:05.Z",
        "2026-01-02T03:04Z",
        "20260102T030405Z",
        "2026-02-30T03:04:05Z",
        "2026-01-02T24:00:00Z",
        "2026-01-02T03:04:05+24:00",
        "2026-01-02T03:04:05+01:60",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+01:00",
        "2026-01-02T03:04:05Z\n",
        "٢٠٢٦-01-02T03:04:05Z",
    ],
)
def test_anything_else_is_rejected(text: str) -> None:
    with pytest.raises(TimestampError):
        parse_timestamp(text)


@given(instants)
def test_microseconds_survive(instant: datetime) -> None:
    assert parse_timestamp(format_micros(instant)) == instant


@given(instants)
def test_fractions_of_a_second_are_truncated(instant: datetime) -> None:
    assert parse_timestamp(format_seconds(instant)) == instant.replace(microsecond=0)


def test_both_forms_are_utc_and_of_constant_width() -> None:
    instant = datetime(2026, 1, 2, 4, 4, 5, tzinfo=timezone(timedelta(hours=1)))

    assert format_seconds(instant) == "2026-01-02T03:04:05Z"
    assert format_micros(instant) == "2026-01-02T03:04:05.000000Z"


def test_a_datetime_without_zone_is_rejected() -> None:
    with pytest.raises(ValueError, match="time zone"):
        format_seconds(datetime(2026, 1, 2))  # noqa: DTZ001  # that it fails is the test


@given(st.text())
def test_no_input_raises_any_other_error(text: str) -> None:
    try:
        parse_timestamp(text)
    except TimestampError:
        return
