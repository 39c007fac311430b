from datetime import timedelta

import pytest

from gpuruntime.api.invocations import InvocationKey, MessageError, ResultRecord, metadata_headers
from gpuruntime.archive.results import DEFAULT_RESULT_TTL, result_of_message
from tests.archive.result_scenes import NOON

DONE = metadata_headers(ResultRecord("succeeded", result_ttl_millis=5000))


def test_a_message_is_a_result_that_expires_after_its_time_to_live_by_the_clock_of_nats() -> None:
    result = result_of_message("res.ns.echo.a=2Eb", DONE, b"x", NOON)

    assert result.key == InvocationKey("ns", "echo", "a.b")
    assert (result.ended, result.expires, result.body) == (NOON, NOON + timedelta(seconds=5), b"x")


def test_a_result_without_a_time_to_live_gets_the_default_and_an_absurd_one_is_cut() -> None:
    without = result_of_message("res.ns.echo.a", metadata_headers(ResultRecord("failed")), b"", NOON)
    absurd = metadata_headers(ResultRecord("failed", result_ttl_millis=2**53))

    assert without.expires == NOON + DEFAULT_RESULT_TTL
    assert result_of_message("res.ns.echo.a", absurd, b"", NOON).expires == NOON + timedelta(days=3650)


@pytest.mark.parametrize(
    ("subject", "headers"),
    [
        ("res.ns.echo", DONE),
        ("res.ns.echo.a.b", DONE),
        ("res.NS.echo.a", DONE),
        ("res.ns.e_cho.a", DONE),
        ("res.ns.echo.-a", DONE),
        ("res.ns.echo.a", {}),
        ("res.ns.echo.a", {"Gpuruntime-Metadata": "{"}),
        ("res.ns.echo.a", metadata_headers(ResultRecord("running"))),
    ],
)
def test_what_is_no_result_is_refused(subject: str, headers: dict[str, str]) -> None:
    with pytest.raises(MessageError):
        result_of_message(subject, headers, b"", NOON)
