from enum import Enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.control.serving.http_site import HttpAddress
from gpuruntime.processes.config.notations import (
    ADDRESS,
    BOOLEAN,
    DURATION,
    FILE,
    NAMESPACE,
    NotationError,
    choice,
    count,
    duration,
    show_seconds,
)


class Mode(Enum):
    FAST = "fast"
    OFF = "off"


@pytest.mark.parametrize(
    ("text", "address", "url"),
    [
        ("127.0.0.1:8080", HttpAddress("127.0.0.1", 8080), "http://127.0.0.1:8080"),
        (":80", HttpAddress("0.0.0.0", 80), "http://0.0.0.0:80"),
        ("[::1]:0", HttpAddress("::1", 0), "http://[::1]:0"),
    ],
)
def test_addresses_are_read_and_shown(text: str, address: HttpAddress, url: str) -> None:
    assert ADDRESS.parse(text) == address
    assert address.url == url
    assert ADDRESS.parse(ADDRESS.show(address)) == address


@pytest.mark.parametrize("text", ["", "8080", "host:", "host:http", "host:65536", "host:-1", "host:²"])
def test_an_invalid_address_is_an_error_that_says_what_was_expected(text: str) -> None:
    with pytest.raises(NotationError, match="host:port"):
        ADDRESS.parse(text)


@pytest.mark.parametrize(("text", "seconds"), [("30", 30), ("30s", 30), ("1.5m", 90), ("1h", 3600), ("500ms", 0.5)])
def test_durations_are_read(text: str, seconds: float) -> None:
    assert DURATION.parse(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-1s", "1d", "1e3", "²s", "nan", "1:30"])
def test_an_invalid_duration_is_an_error_that_says_what_was_expected(text: str) -> None:
    with pytest.raises(NotationError, match="duration"):
        DURATION.parse(text)


@given(st.integers(min_value=0, max_value=10**9))
def test_a_shown_duration_is_read_as_an_equal_one(milliseconds: int) -> None:
    seconds = milliseconds / 1000

    assert DURATION.parse(show_seconds(seconds)) == pytest.approx(seconds, abs=1e-9)


@pytest.mark.parametrize(("seconds", "text"), [(0, "0s"), (90, "90s"), (120, "2m"), (86400, "24h"), (0.25, "250ms")])
def test_durations_are_shown_in_the_largest_unit_that_fits(seconds: float, text: str) -> None:
    assert show_seconds(seconds) == text


@pytest.mark.parametrize(
    ("parse", "text", "named"),
    [
        (duration(least=5).parse, "4s", "5s .*got '4s'"),
        (count(1, 9).parse, "10", "1 to 9, got '10'"),
        (count(1, 9).parse, "+1", "1 to 9, got '[+]1'"),
        (choice(Mode).parse, "slow", "fast, off, got 'slow'"),
        (BOOLEAN.parse, "yes", "true or false, got 'yes'"),
        (NAMESPACE.parse, "A", "namespace, got 'A'"),
        (FILE.parse, " ", "file, got ' '"),
        (NAMESPACE.parse, "x" * 300, f"got '{'x' * 80}[.][.][.]'"),
    ],
)
def test_an_error_says_what_was_expected_and_what_was_given(parse: "type", text: str, named: str) -> None:
    with pytest.raises(NotationError, match=named):
        parse(text)
