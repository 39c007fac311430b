"""A full state as the beginning of the watch, where that is asked for: in virtual time, on a wire with a script."""

import pytest

from gpuruntime.control.informers.reflector import ReflectorSettings
from gpuruntime.kube.errors import UnavailableError
from tests.control.informers.reflector_scenes import (
    GONE,
    ScriptedWire,
    Step,
    event,
    follow,
    listing,
    status,
    streamed,
    times,
)

STREAMING = ReflectorSettings(stream_lists=True)


def test_a_streamed_list_is_shown_at_once_and_the_stream_goes_on_as_the_watch() -> None:
    script: list[Step] = [streamed(5, "x", "y"), event("MODIFIED", "x", 6), event("BOOKMARK", version=9), 1000.0]
    wire = ScriptedWire(streams=[script])

    notes, _ = follow(wire, 100, STREAMING)

    assert notes.calls == ["replace x y at 5", "MODIFIED x", "bookmark 9"]
    ((_, params),) = wire.asked
    assert params == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "",
        "timeoutSeconds": params["timeoutSeconds"],
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
    }


def test_a_streamed_list_that_breaks_off_shows_nothing_of_it() -> None:
    half: list[Step] = [event("ADDED", "half", 1), UnavailableError("cut off")]
    wire = ScriptedWire(streams=[half, [streamed(5, "whole"), 1000.0]])

    notes, _ = follow(wire, 100, STREAMING)

    assert notes.calls == ["replace whole at 5"]


def test_objects_that_go_while_a_list_is_streamed_are_not_in_it() -> None:
    wire = ScriptedWire(streams=[[event("ADDED", "x", 1), event("DELETED", "x", 2), streamed(5, "y"), 1000.0]])

    notes, _ = follow(wire, 100, STREAMING)

    assert notes.calls == ["replace y at 5"]


def test_the_versions_of_initial_objects_say_nothing_about_how_far_we_are() -> None:
    half: list[Step] = [event("ADDED", "x", 900), UnavailableError("cut off")]
    wire = ScriptedWire(streams=[half, [streamed(5), 1000.0]])

    follow(wire, 100, STREAMING)

    assert [params["resourceVersion"] for _, params in wire.asked] == ["", ""]


def test_after_a_streamed_list_the_watch_is_resumed_without_streaming_it_again() -> None:
    wire = ScriptedWire(streams=[[streamed(5, "x"), 60.0], [event("MODIFIED", "x", 9), 1000.0]])

    notes, _ = follow(wire, 100, STREAMING)

    assert notes.calls == ["replace x at 5", "MODIFIED x"]
    assert ["sendInitialEvents" in params for _, params in wire.asked] == [True, False]


@pytest.mark.parametrize(("failure", "cause"), [(GONE, "expired"), (status(404), "vanished")], ids=["410", "404"])
def test_a_list_is_streamed_anew_not_older_than_the_known_state(failure: Step, cause: str) -> None:
    wire = ScriptedWire(streams=[[streamed(5, "x"), 60.0], [failure], [streamed(50, "y"), 1000.0]])

    notes, reflector = follow(wire, 100, STREAMING)

    assert notes.calls == ["replace x at 5", "replace y at 50"]
    assert (wire.asked[2][1]["resourceVersion"], wire.asked[2][1]["sendInitialEvents"]) == ("5", "true")
    assert reflector.health.relists == {"start": 1, cause: 1}


def test_a_fresh_state_that_is_expired_or_ahead_of_the_server_is_asked_for_without_a_version() -> None:
    ahead = status(504, causes=[{"reason": "ResourceVersionTooLarge"}])
    wire = ScriptedWire(
        streams=[[streamed(5, "x"), 60.0], [GONE], [GONE], [streamed(2, "y"), 60.0], [ahead], [streamed(1, "z"), 999.0]]
    )

    notes, reflector = follow(wire, 200, STREAMING)

    assert notes.calls == ["replace x at 5", "replace y at 2", "replace z at 1"]
    assert [params["resourceVersion"] for _, params in wire.asked] == ["", "5", "5", "", "2", ""]
    assert reflector.health.relists == {"start": 1, "expired": 1, "restored": 1}


@pytest.mark.parametrize(
    "script",
    [[], [status(500)], [status(404)], [GONE], [status(422)], [UnavailableError("refused")], [b"<html></html>\n"]],
    ids=["closed", "500", "404", "410", "422", "refused", "html line"],
)
@pytest.mark.parametrize("after", ["start", "sync"])
def test_a_server_that_only_fails_is_asked_at_most_once_a_second_after_ten_seconds(
    script: list[Step], after: str
) -> None:
    good: list[Step] = [streamed(5, "x"), 10.0]
    streams = [good, script] if after == "sync" else [script]
    wire = ScriptedWire([[status(500)]], streams)

    follow(wire, 80, STREAMING)

    late = [time for time in times(wire) if time >= 20]
    assert len(late) <= 60
    assert late, "it must not give up either"


@pytest.mark.parametrize("refusal", [status(422, "Invalid"), status(400, "BadRequest")], ids=["422", "400"])
def test_a_server_that_refuses_streamed_lists_is_listed_in_pages_and_then_watched(refusal: Step) -> None:
    wire = ScriptedWire(
        [[listing(5, "x", token="more")], [listing(5, "y")]], [[refusal], [event("MODIFIED", "x", 6), 1000.0]]
    )

    notes, _ = follow(wire, 100, STREAMING)

    assert notes.calls == ["replace x y at 5", "MODIFIED x"]
    assert [params.get("continue") for _, params in wire.asked] == [None, None, "more", None]
    assert times(wire) == [0, 0, 0, 0]


def test_a_refusal_after_a_streamed_list_lists_nothing() -> None:
    wire = ScriptedWire(streams=[[streamed(5, "x"), status(422, "Invalid")], [1000.0]])

    notes, reflector = follow(wire, 100, STREAMING)

    assert notes.calls == ["replace x at 5"]
    assert reflector.health.relists == {"start": 1}


def test_a_server_that_ignores_streamed_lists_is_recognised_by_its_silence() -> None:
    wire = ScriptedWire([[listing(5, "x")]], [[event("ADDED", "x", 1), 1000.0], [1000.0]])

    notes, _ = follow(wire, 100, STREAMING)

    assert notes.calls == ["replace x at 5"]
    assert times(wire) == [0, 10, 10]
