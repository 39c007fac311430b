"""What a function sees beside its payload."""

import logging
import math

import pytest

from gpuruntime.framework.context import Context, Invocation


def test_the_remaining_time_shrinks_and_never_gets_negative() -> None:
    assert 59 < Context(Invocation("a", remaining=60)).remaining_seconds <= 60
    assert Context(Invocation("a", remaining=0)).remaining_seconds == 0
    assert Context(Invocation("a")).remaining_seconds == math.inf


def test_the_log_names_the_invocation(caplog: pytest.LogCaptureFixture) -> None:
    context = Context(Invocation("inv-1"))

    with caplog.at_level(logging.INFO):
        context.log.info("loaded %s", "a model", extra={"tenant": "t"})

    [record] = caplog.records
    assert record.getMessage() == "[inv-1] loaded a model"
    assert (vars(record)["invocation"], vars(record)["tenant"]) == ("inv-1", "t")
