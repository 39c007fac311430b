"""Both forms of Retry-After, and whatever else servers write there."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuruntime.kube.transport.retry_after import parse_retry_after

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        (" 7 ", 7.0),
        (format_datetime(NOW + timedelta(seconds=30), usegmt=True), 30.0),
        (format_datetime(NOW - timedelta(days=1), usegmt=True), 0.0),
        ("Mon, 16 Nov 2026 12:00:05", 5.0),
        ("", None),
        ("soon", None),
        ("-1", None),
        ("1.5", None),
        ("\u0661", None),
    ],
)
def test_seconds_and_dates_are_understood_and_the_rest_is_not(text: str, seconds: float | None) -> None:
    assert parse_retry_after(text, NOW) == seconds


@settings(deadline=None)
@given(st.text(max_size=60) | st.datetimes(timezones=st.just(UTC)).map(lambda date: format_datetime(date, usegmt=True)))
def test_any_text_is_seconds_or_nothing(text: str) -> None:
    seconds = parse_retry_after(text, NOW)

    assert seconds is None or seconds >= 0.0
