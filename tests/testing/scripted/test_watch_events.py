"""Watch events as lines: whole, cut, joined and padded."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.testing.scripted import watch_events as events

POD = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a", "resourceVersion": "5"}}

names = st.text(max_size=40)


def pod(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "annotations": {"note": name}}}


@given(names)
def test_an_event_is_encoded_as_one_line(name: str) -> None:
    event = events.added(pod(name))

    line = events.line_of(event)

    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert json.loads(line) == event


@given(names, st.integers(1, 30))
def test_pieces_are_never_empty_and_join_to_the_line(name: str, count: int) -> None:
    event = events.modified(pod(name))

    pieces = events.cut_in_pieces(event, count)

    assert len(pieces) == count
    assert all(pieces)
    assert b"".join(pieces) == events.line_of(event)


@pytest.mark.parametrize("count", [0, 1000])
def test_an_impossible_number_of_pieces_is_rejected(count: int) -> None:
    with pytest.raises(ValueError, match=f"{count}"):
        events.cut_in_pieces(events.added({}), count)


@given(names, st.integers(500, 5000))
def test_an_event_can_be_padded_to_an_exact_size(name: str, size: int) -> None:
    event = events.event_of_size(events.added(pod(name)), size)

    assert len(events.line_of(event)) == size
    assert event["object"]["metadata"]["name"] == name
    assert event["object"]["metadata"]["annotations"]["note"] == name


def test_an_event_is_never_shortened() -> None:
    with pytest.raises(ValueError, match="10"):
        events.event_of_size(events.added(POD), 10)


def test_half_a_line_has_no_line_feed() -> None:
    half = events.first_half(events.deleted(POD))

    assert events.line_of(events.deleted(POD)).startswith(half)
    assert not half.endswith(b"\n")


def test_lines_in_one_chunk_stay_lines() -> None:
    chunk = events.in_one_chunk(events.added(POD), events.bookmark("6"))

    assert [json.loads(line)["type"] for line in chunk.splitlines()] == ["ADDED", "BOOKMARK"]


def test_bookmarks_carry_a_version_and_mark_the_end_of_initial_events() -> None:
    plain = events.bookmark("6", kind="Lease", api_version="coordination.k8s.io/v1")["object"]
    ending = events.initial_events_end("7")["object"]

    assert (plain["kind"], plain["apiVersion"]) == ("Lease", "coordination.k8s.io/v1")
    assert plain["metadata"] == {"resourceVersion": "6", "creationTimestamp": None}
    assert ending["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_an_error_event_carries_a_status() -> None:
    event = events.error_event(410, "Expired", "too old")

    assert event["type"] == "ERROR"
    assert event["object"] == events.status_object(410, "Expired", "too old")
