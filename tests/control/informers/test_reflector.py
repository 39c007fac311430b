"""When a reflector asks again, and when it starts over: in virtual time, on a wire that plays a script."""

import itertools
from typing import Any

import orjson
import pytest

from gpuruntime.control.informers.reflector import ReflectorSettings
from gpuruntime.kube.errors import KubeError, UnavailableError, UnexpectedResponseError
from tests.control.informers.reflector_scenes import (
    GONE,
    ScriptedWire,
    Step,
    error_line,
    event,
    follow,
    listing,
    status,
    times,
)

AHEAD = status(504, causes=[{"reason": "ResourceVersionTooLarge"}])
FAILURES: dict[str, list[Step]] = {
    "closed": [],
    "500": [status(500)],
    "403": [status(403)],
    "404": [status(404)],
    "429": [status(429)],
    "410": [GONE],
    "ahead": [AHEAD],
    "refused": [UnavailableError("refused")],
    "html answer": [UnexpectedResponseError("an HTML page")],
    "html line": [b"<html>not json</html>\n"],
    "half a line": [b'{"type": "ADDED", "obj'],
}


def test_pages_are_shown_all_at_once_and_the_watch_begins_at_once_where_they_end() -> None:
    wire = ScriptedWire(
        [[listing(5, "x", token="more")], [listing(5, "y")]],
        [[event("MODIFIED", "x", 6), event("BOOKMARK", version=9), 1000.0]],
    )

    notes, reflector = follow(wire, 100)

    assert notes.calls == ["replace x y at 5", "MODIFIED x", "bookmark 9"]
    assert wire.asked[:2] == [(0, {"limit": "100"}), (0, {"limit": "500", "continue": "more"})]
    seconds = wire.asked[2][1]["timeoutSeconds"]
    assert wire.asked[2:] == [
        (0, {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": "5", "timeoutSeconds": seconds})
    ]
    assert 300 <= int(seconds) <= 600
    assert (reflector.health.requests, reflector.health.relists) == (3, {"start": 1})


@pytest.mark.parametrize("failure", [UnavailableError("cut off"), status(500), b"<html>", listing(5)[:-1]], ids=str)
def test_pages_that_break_off_show_nothing_of_them(failure: Step) -> None:
    wire = ScriptedWire([[listing(5, "half", token="more")], [failure], [listing(6, "whole")]], [[1000.0]])

    notes, _ = follow(wire, 100)

    assert notes.calls == ["replace whole at 6"]
    assert [params.get("continue") for _, params in wire.asked] == [None, "more", None, None]


def test_pages_that_expire_halfway_lead_to_one_request_for_everything() -> None:
    wire = ScriptedWire([[listing(5, "gone", token="more")], [GONE], [listing(9, "x", "y")]], [[1000.0]])

    notes, _ = follow(wire, 100)

    assert notes.calls == ["replace x y at 9"]
    assert [params for _, params in wire.asked[1:3]] == [{"limit": "500", "continue": "more"}, {}]
    assert times(wire) == [0, 0, 0, 0]


def test_a_list_that_expires_at_once_is_asked_for_again() -> None:
    wire = ScriptedWire([[GONE], [listing(9, "x")]], [[1000.0]])

    notes, _ = follow(wire, 100)

    assert notes.calls == ["replace x at 9"]
    assert [params.get("limit") for _, params in wire.asked[:2]] == ["100", "100"]


def test_items_without_a_name_and_items_that_are_no_objects_are_passed_over() -> None:
    page = {
        "kind": "PodList",
        "metadata": {"resourceVersion": "5"},
        "items": [{"metadata": {}}, 7, None, {"metadata": {"name": "x"}}, {"metadata": 3}],
    }
    wire = ScriptedWire([[orjson.dumps(page)]], [[1000.0]])

    notes, _ = follow(wire, 100)

    assert notes.calls == ["replace x at 5"]


def test_a_watch_that_ends_is_opened_again_where_it_stopped_without_fetching_anew() -> None:
    wire = ScriptedWire(
        [[listing(5, "x")]], [[60.0, event("BOOKMARK", version=8)], [event("MODIFIED", "x", 9), 1000.0]]
    )

    notes, _ = follow(wire, 100)

    assert notes.calls == ["replace x at 5", "bookmark 8", "MODIFIED x"]
    assert [params.get("resourceVersion") for _, params in wire.asked] == [None, "5", "8"]
    assert times(wire) == [0, 0, 60]


def test_a_stream_with_events_is_resumed_at_once_but_at_most_once_a_second() -> None:
    wire = ScriptedWire([[listing(5, "x")]], [[], [event("MODIFIED", "x", 9)]])

    follow(wire, 10.5)

    assert times(wire) == [0, *(float(second) for second in range(11))]


@pytest.mark.parametrize("script", FAILURES.values(), ids=FAILURES)
@pytest.mark.parametrize("where", ["list", "watch", "watch after a while"])
def test_a_server_that_only_fails_is_asked_at_most_once_a_second_after_ten_seconds(
    script: list[Step], where: str
) -> None:
    page: list[Step] = [listing(5, "x")]
    good: list[Step] = [10.0]
    wire = ScriptedWire(
        [script] if where == "list" else [page], [good, script] if where == "watch after a while" else [script]
    )

    follow(wire, 80)

    late = [time for time in times(wire) if time >= 20]
    assert len(late) <= 60
    assert late, "it must not give up either"


@pytest.mark.parametrize("script", FAILURES.values(), ids=FAILURES)
def test_even_a_state_of_many_pages_is_fetched_at_most_once_a_second_for_each(script: list[Step]) -> None:
    pages: list[list[Step]] = [[listing(5, f"x{number}", token=f"{number}")] for number in range(30)]
    wire = ScriptedWire([*pages, [listing(5, "last")]] * 100, [script])

    follow(wire, 1000)

    late = [time for time in times(wire) if time >= 100]
    assert len(late) <= 900
    assert late, "it must not give up either"


def test_a_hint_of_the_server_is_honoured_when_it_is_longer_than_our_patience() -> None:
    wire = ScriptedWire([[status(429, retryAfterSeconds=50)], [listing(5)]], [[1000.0]])

    follow(wire, 100)

    assert times(wire)[1] >= 50


@pytest.mark.parametrize("gone", [[GONE], [error_line(410, "Gone")]], ids=["answer", "event"])
def test_an_expired_place_leads_to_a_fresh_state(gone: list[Step]) -> None:
    wire = ScriptedWire([[listing(5, "x")], [listing(50, "y")]], [[60.0], gone, [1000.0]])

    notes, reflector = follow(wire, 100)

    assert notes.calls == ["replace x at 5", "replace y at 50"]
    assert [params.get("resourceVersion") for _, params in wire.asked] == [None, "5", "5", None, "50"]
    assert reflector.health.relists == {"start": 1, "expired": 1}


def test_a_place_ahead_of_the_server_leads_to_a_fresh_state_that_may_be_older() -> None:
    wire = ScriptedWire([[listing(5, "x")], [listing(2, "y")]], [[60.0], [AHEAD], [1000.0]])

    notes, reflector = follow(wire, 100)

    assert notes.calls == ["replace x at 5", "replace y at 2"]
    assert reflector.health.relists == {"start": 1, "restored": 1}


@pytest.mark.parametrize("failure", [status(500, "InternalError"), status(403, "Forbidden"), UnavailableError("reset")])
def test_other_failures_of_a_watch_fetch_nothing_anew(failure: KubeError) -> None:
    wire = ScriptedWire([[listing(5, "x")]], [[60.0], [failure], [failure], [event("MODIFIED", "x", 6), 1000.0]])

    notes, reflector = follow(wire, 200)

    assert notes.calls == ["replace x at 5", "MODIFIED x"]
    assert reflector.health.relists == {"start": 1}


def test_a_kind_that_is_no_longer_served_is_fetched_anew_when_it_is_and_stays_known_until_then() -> None:
    away = status(404)
    wire = ScriptedWire([[listing(5, "x")], [away], [away], [listing(50, "y")]], [[60.0], [away], [1000.0]])

    notes, reflector = follow(wire, 200)

    assert notes.calls == ["replace x at 5", "replace y at 50"]
    assert ["watch" in params for _, params in wire.asked] == [False, True, True, False, False, False, True]
    assert reflector.health.relists == {"start": 1, "vanished": 1}


def test_a_line_that_breaks_the_stream_again_and_again_is_got_around_by_a_fresh_state() -> None:
    poison: list[Step] = [b"not json\n"]
    wire = ScriptedWire([[listing(5, "x")], [listing(9, "x")]], [[60.0], poison, poison, poison, [1000.0]])

    notes, reflector = follow(wire, 200)

    assert notes.calls == ["replace x at 5", "replace x at 9"]
    assert reflector.health.relists == {"start": 1, "broken": 1}


@pytest.mark.parametrize(
    "page",
    [
        {"message": "sign in first"},
        {"kind": "PodList", "items": []},
        {"kind": "PodList", "metadata": [], "items": []},
        {"kind": "PodList", "metadata": {"resourceVersion": "5"}, "items": 3},
        {"kind": "Pod", "metadata": {"resourceVersion": "5"}},
        {"kind": "Table", "metadata": {"resourceVersion": "5"}, "rows": [{"object": {"items": [{"metadata": {}}]}}]},
    ],
)
def test_an_answer_that_is_no_list_is_not_taken_for_an_empty_one(page: dict[str, Any]) -> None:
    wire = ScriptedWire([[orjson.dumps(page)]])

    notes, reflector = follow(wire, 100)

    assert notes.calls == []
    assert "metadata.resourceVersion" in str(reflector.health.last_error)


def test_a_kind_that_is_not_served_is_logged_with_a_hint_and_found_when_it_appears(
    caplog: pytest.LogCaptureFixture,
) -> None:
    wire = ScriptedWire([[status(404)], [listing(5, "x")]], [[1000.0]])

    notes, reflector = follow(wire, 100)

    (line,) = (vars(record) for record in caplog.records if record.getMessage() == "watch failed, will retry")
    assert (line["path"], line["hint"]) == (
        "/api/v1/pods",
        "the server does not serve this kind; install its CRD, and the watch resumes by itself",
    )
    assert notes.calls == ["replace x at 5"]
    assert (reflector.health.trouble, reflector.health.hint) == ("", "")
    assert reflector.health.relists == {"start": 1}


@pytest.mark.parametrize("streaming", [False, True])
def test_a_first_state_that_takes_long_and_fails_is_no_reason_to_ask_again_at_once(streaming: bool) -> None:
    script: list[Step] = [6.0, UnavailableError("overloaded", retry_after=20)]
    wire = ScriptedWire([script], [script])

    follow(wire, 100, ReflectorSettings(stream_lists=streaming))

    pauses = [later - earlier for earlier, later in itertools.pairwise(times(wire))]
    assert all(pause >= 26 for pause in pauses)


def test_a_refusal_in_the_middle_of_a_watch_fetches_nothing_anew() -> None:
    wire = ScriptedWire([[listing(5, "x")]], [[60.0, error_line(422, "Invalid")], [event("MODIFIED", "x", 6), 1000.0]])

    notes, reflector = follow(wire, 200)

    assert notes.calls == ["replace x at 5", "MODIFIED x"]
    assert reflector.health.relists == {"start": 1}


def test_breaks_that_are_far_between_do_not_add_up() -> None:
    poison: list[Step] = [b"not json\n"]
    good: list[Step] = [event("MODIFIED", "x", 6), 60.0]
    wire = ScriptedWire([[listing(5, "x")]], [[60.0], poison, good, poison, good, poison, good, [1000.0]])

    _, reflector = follow(wire, 1000)

    assert reflector.health.relists == {"start": 1}
