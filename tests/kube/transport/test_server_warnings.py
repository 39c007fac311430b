"""Warnings of the server reach the log, once."""

import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuruntime.kube.transport.server_warnings import WarningLog, parse_warnings


@pytest.mark.parametrize(
    ("header", "texts"),
    [
        ('299 - "v1beta1 is deprecated"', ["v1beta1 is deprecated"]),
        ('299 - "a, b", 299 agent "c" "Mon, 16 Nov 2026 12:00:05 GMT"', ["a, b", "c"]),
        (r'299 - "say \"no\" to \\"', ['say "no" to \\']),
        ('110 - "stale", 299 - "fresh"', ["fresh"]),
        ('299 - "good", 299 - "half', ["good"]),
        ("299 -", []),
        ("", []),
    ],
)
def test_texts_of_code_299_are_found_up_to_the_first_fault(header: str, texts: list[str]) -> None:
    assert parse_warnings(header) == texts


@settings(deadline=None)
@given(st.text(max_size=200))
def test_a_text_survives_the_quoting_of_the_server(text: str) -> None:
    text = text.replace("\n", " ")
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')

    assert parse_warnings(f'299 - "{quoted}"') == [text]


@settings(deadline=None)
@given(st.text(max_size=200))
def test_any_header_can_be_read(header: str) -> None:
    assert all(len(text) <= 1024 for text in parse_warnings(header))


def test_each_text_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    warnings = WarningLog()

    with caplog.at_level(logging.WARNING):
        warnings.note(['299 - "old"', '299 - "older"'])
        warnings.note(['299 - "old"'])

    assert [vars(record)["warning"] for record in caplog.records] == ["old", "older"]


def test_of_many_texts_the_oldest_is_forgotten_first(caplog: pytest.LogCaptureFixture) -> None:
    warnings = WarningLog(remembered=2)

    with caplog.at_level(logging.WARNING):
        for text in ("a", "b", "c", "b", "a"):
            warnings.note([f'299 - "{text}"'])

    assert [vars(record)["warning"] for record in caplog.records] == ["a", "b", "c", "a"]
