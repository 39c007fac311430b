"""What the HTTP library raises becomes one kind of error, with words for it."""

import aiohttp
import pytest

from gpuruntime.kube.errors import UnexpectedResponseError
from gpuruntime.kube.transport.failures import FAILURES, error_from_failure, error_from_response
from gpuruntime.kube.transport.session import ConnectionLostError


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (aiohttp.ServerDisconnectedError(), ""),
        (aiohttp.ClientPayloadError("not enough"), ""),
        (aiohttp.ConnectionTimeoutError(), ""),
        (TimeoutError(), "30 s"),
        (ConnectionResetError(104, "Connection reset by peer"), "Connection reset by peer"),
        (aiohttp.InvalidURL("x"), "InvalidURL"),
    ],
)
def test_each_failure_has_words_and_its_cause(failure: Exception, text: str) -> None:
    error = error_from_failure(failure, "GET /x", outcome_unknown=True, seconds=30.0)

    assert isinstance(failure, FAILURES)
    assert str(error).startswith("GET /x: ")
    assert str(error).endswith(text)
    assert error.__cause__ is failure
    assert error.outcome_unknown is True


def test_the_cause_of_a_lost_connection_is_what_the_library_said() -> None:
    cause = aiohttp.ServerDisconnectedError()
    lost = ConnectionLostError()
    lost.__cause__ = cause

    error = error_from_failure(lost, "GET /x", outcome_unknown=False)

    assert error.__cause__ is cause


def test_a_redirect_without_a_host_is_one_to_the_same_host() -> None:
    error = error_from_response(307, b"", {"Location": "/login"}, "GET /x")

    assert isinstance(error, UnexpectedResponseError)
    assert "307" in str(error)
    assert "same host" in str(error)
