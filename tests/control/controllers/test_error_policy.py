"""What follows from which error."""

from typing import Any

import pytest

from gpuruntime.control.controllers.error_policy import Decision, decide, is_expected
from gpuruntime.control.controllers.freshness import StaleCacheError
from gpuruntime.control.controllers.reconcile import TerminalError
from gpuruntime.control.informers.store import QuarantinedError
from gpuruntime.control.writing.hot_loops import HotLoopError
from gpuruntime.kube.errors import CredentialsError, KubeError, UnavailableError, error_from_watch_status


def status(code: int, reason: str = "", **details: Any) -> KubeError:
    return error_from_watch_status({"kind": "Status", "code": code, "reason": reason, "details": details})


@pytest.mark.parametrize(
    ("error", "decision"),
    [
        (status(409, "Conflict"), Decision("conflict")),
        (status(409, "AlreadyExists"), Decision("conflict")),
        (status(409, "AlreadyExists", retryAfterSeconds=1), Decision("conflict")),
        (status(429, "TooManyRequests", retryAfterSeconds=17), Decision("wait", 17)),
        (status(429, "TooManyRequests"), Decision("retry")),
        (status(500, "ServerTimeout", retryAfterSeconds=3), Decision("wait", 3)),
        (status(503, "ServiceUnavailable", retryAfterSeconds=5), Decision("wait", 5)),
        (UnavailableError("now", code=503, retry_after=0.0), Decision("retry")),
        (UnavailableError("no answer"), Decision("retry")),
        (HotLoopError("somebody undoes it", retry_after=30), Decision("wait", 30)),
        (status(403, "Forbidden"), Decision("wait", 60)),
        (status(422, "Invalid"), Decision("terminal")),
        (TerminalError("no use"), Decision("terminal")),
        (status(400, "BadRequest"), Decision("retry")),
        (status(401, "Unauthorized"), Decision("retry")),
        (status(404, "NotFound"), Decision("retry")),
        (status(410, "Expired"), Decision("retry")),
        (status(500, "InternalError"), Decision("retry")),
        (CredentialsError("no token"), Decision("retry")),
        (StaleCacheError("behind"), Decision("retry")),
        (QuarantinedError("unreadable"), Decision("retry")),
        (TimeoutError(), Decision("retry")),
        (RuntimeError("a bug"), Decision("retry")),
    ],
    ids=repr,
)
def test_every_error_has_its_verdict(error: Exception, decision: Decision) -> None:
    assert decide(error) == decision


def test_a_hint_counts_only_from_the_server() -> None:
    class ImpostorError(Exception):
        retry_after = 3600.0

    assert decide(ImpostorError()) == Decision("retry")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (status(500), True),
        (TerminalError("no use"), True),
        (StaleCacheError("behind"), True),
        (QuarantinedError("unreadable"), True),
        (RuntimeError("a bug"), False),
        (TimeoutError(), False),
    ],
    ids=repr,
)
def test_errors_that_explain_themselves_need_no_traceback(error: Exception, expected: bool) -> None:
    assert is_expected(error) is expected
