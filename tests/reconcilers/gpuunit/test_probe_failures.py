"""What an event of a kubelet says about a probe."""

from typing import Any

import pytest

from gpuruntime.control import Change, projected
from gpuruntime.control.informers.indexer import Entry, Indexer
from gpuruntime.kube.builtin.events import Event
from gpuruntime.reconcilers.gpuunit.probe_failures import (
    ProbeFailure,
    answer_changed,
    latest_answer,
    summarize_event,
)

EVENTS = projected(Event.KIND, summarize_event)
REFUSED = "connect: connection refused"
NOT_FOUND = "HTTP probe failed with statuscode: 404"


def entry(answer: str | None) -> Entry | None:
    raw = event(f"Readiness probe failed: {answer}")
    return None if answer is None else Indexer(EVENTS, ()).entry(raw, 10)


def event(note: str, **times: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "unit-a-1-x.17",
            "namespace": "apps",
            "uid": "u",
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "reason": "Unhealthy",
        "note": note,
        "regarding": {"kind": "Pod", "name": "unit-a-1-x"},
        **times,
    }


@pytest.mark.parametrize(
    ("note", "answer"),
    [
        (f"Readiness probe failed: {NOT_FOUND}", NOT_FOUND),
        ("Readiness probe failed: \n", ""),
        ("Readiness probe errored and resulted in unknown state: no such command", "no such command"),
        ("Readiness probe warning: x", "warning: x"),
        ("Liveness probe failed: HTTP probe failed with statuscode: 500", ""),
        ("", ""),
    ],
)
def test_the_answer_of_a_readiness_probe_is_kept(note: str, answer: str) -> None:
    assert summarize_event(event(note)) == ProbeFailure("unit-a-1-x", answer, "2026-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("times", "at"),
    [
        ({"deprecatedLastTimestamp": "2026-01-01T00:02:00Z", "eventTime": None}, "2026-01-01T00:02:00Z"),
        ({"eventTime": "2026-01-01T00:01:00.000000Z"}, "2026-01-01T00:01:00.000000Z"),
        (
            {"eventTime": "2026-01-01T00:01:00.000000Z", "series": {"lastObservedTime": "2026-01-01T00:03:00.000000Z"}},
            "2026-01-01T00:03:00.000000Z",
        ),
    ],
)
def test_the_last_time_of_a_repeated_event_counts(times: dict[str, object], at: str) -> None:
    assert summarize_event(event(f"Readiness probe failed: {REFUSED}", **times)).at == at


def test_the_latest_answer_since_the_start_of_the_container_counts() -> None:
    failures = [
        ProbeFailure("a", "of an earlier container", "2026-01-01T00:00:09Z"),
        ProbeFailure("a", NOT_FOUND, "2026-01-01T00:00:30.500000Z"),
        ProbeFailure("a", REFUSED, "2026-01-01T00:00:20Z"),
        ProbeFailure("a", "", "2026-01-01T00:00:40Z"),
    ]

    assert latest_answer(failures, since="2026-01-01T00:00:10Z") == NOT_FOUND
    assert latest_answer(failures[:1], since="2026-01-01T00:00:10Z") == ""


@pytest.mark.parametrize(
    ("before", "after", "is_news"),
    [
        (None, REFUSED, True),
        (REFUSED, REFUSED, False),
        (REFUSED, NOT_FOUND, True),
        (None, "", False),
        (REFUSED, None, False),
    ],
)
def test_the_same_answer_again_is_no_news(before: str | None, after: str | None, is_news: bool) -> None:
    assert answer_changed(Change(EVENTS, entry(before), entry(after))) == is_news
