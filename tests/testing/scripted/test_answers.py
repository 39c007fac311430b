"""Scripted answers are valid tuples of steps."""

import json

import pytest

from gpuruntime.testing.scripted.answers import (
    Answer,
    Begin,
    Cut,
    Hold,
    Reset,
    Respond,
    Send,
    Stall,
    check_answer,
    html_page,
    kube_status,
    respond,
    watch_stream,
)
from gpuruntime.testing.scripted.watch_events import bookmark, line_of


@pytest.mark.parametrize(
    "answer",
    [
        respond(200, {"items": []}),
        kube_status(404, "NotFound"),
        html_page(),
        watch_stream(),
        watch_stream(bookmark("1"), Hold(), b"half", Cut()),
        (Hold("late"), *respond()),
        (Reset(),),
        (Stall(),),
    ],
)
def test_a_valid_answer_is_accepted(answer: Answer) -> None:
    check_answer(answer)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ((), "no response"),
        ((Hold(),), "no response"),
        ((Send(b"x"),), "1 bytes before"),
        ((Begin(200), Begin(200)), "second response"),
        ((Begin(200), Respond(200)), "second response"),
        ((*respond(), Send(b"x")), "after the end"),
        ((Cut(), *respond()), "after the end"),
        ((Begin(200), Stall(), Send(b"x")), "after the end"),
    ],
)
def test_an_impossible_answer_is_rejected(answer: Answer, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        check_answer(answer)


def test_a_mapping_is_sent_as_json_unless_a_header_says_otherwise() -> None:
    (plain,) = respond(200, {"a": 1})
    (other,) = respond(200, {"a": 1}, {"Content-Type": "application/vnd.example"})

    assert plain == Respond(200, {"Content-Type": "application/json"}, b'{"a": 1}')
    assert isinstance(other, Respond)
    assert other.headers == {"Content-Type": "application/vnd.example"}


def test_retry_after_is_in_the_header_and_in_the_status_details() -> None:
    (step,) = kube_status(429, "TooManyRequests", retry_after=7)

    assert isinstance(step, Respond)
    assert step.headers["Retry-After"] == "7"
    assert json.loads(step.body)["details"] == {"retryAfterSeconds": 7}


def test_a_stream_sends_each_part_in_its_own_chunk() -> None:
    event = bookmark("1")

    answer = watch_stream(event, b"rest", Cut())

    assert answer[1:] == (Send(line_of(event)), Send(b"rest"), Cut())
