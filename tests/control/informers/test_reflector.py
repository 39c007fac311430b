"""When a reflector asks again, and when it starts over: in virtual time, on a wire that plays a script."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import orjson
import pytest
from attrs import define, field
from multidict import CIMultiDict, CIMultiDictProxy

from gpuruntime.control.informers.indexes import Index
from gpuruntime.control.informers.reflection import Collection, ReflectorSettings
from gpuruntime.control.informers.reflector import Reflector
from gpuruntime.control.informers.shelf import Shelf
from gpuruntime.control.informers.storage import Projected
from gpuruntime.kube.answers import Answer
from gpuruntime.kube.errors import KubeError, UnavailableError, UnexpectedAnswerError, error_from_watch_status
from gpuruntime.kube.transport import Params
from gpuruntime.kube.watching import WatchEvent
from gpuruntime.meta.identity import ResourceKind
from gpuruntime.testing.virtual_time import run_virtual

KIND = ResourceKind("", "v1", "Pod", "pods", namespaced=True)


def status(code: int, reason: str = "", **details: Any) -> KubeError:
    return error_from_watch_status({"kind": "Status", "code": code, "reason": reason, "details": details})


def event(kind: str, name: str = "", version: int = 0, **metadata: Any) -> bytes:
    body = {"metadata": {"name": name, "namespace": "a", "resourceVersion": str(version), **metadata}}
    return orjson.dumps({"type": kind, "object": body}) + b"\n"


def synced(version: int, *names: str) -> bytes:
    """A streamed list: objects, and the bookmark that ends it."""
    objects = [event("ADDED", name, 1) for name in names]
    return b"".join([*objects, event("BOOKMARK", version=version, annotations={"k8s.io/initial-events-end": "true"})])


Step = bytes | float | KubeError
"""A chunk that arrives, seconds that pass, an error that ends it."""


@define
class ScriptedWire:
    """Plays one script a request, the last one for ever, and notes when it was asked what."""

    scripts: list[list[Step]]
    lists: list[dict[str, Any] | KubeError] = field(factory=list)
    asked: list[tuple[float, dict[str, str]]] = field(factory=list)

    async def request(self, method: str, path: str, *, params: Params = (), **_options: Any) -> Answer:
        assert (method, path) == ("GET", "/api/v1/pods")
        self._note(params)
        answer = self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]
        if isinstance(answer, KubeError):
            raise answer
        return Answer(200, CIMultiDictProxy(CIMultiDict()), orjson.dumps(answer), "GET")

    @asynccontextmanager
    async def stream(self, path: str, *, params: Params = (), **_options: Any) -> AsyncIterator[AsyncIterator[bytes]]:
        assert path == "/api/v1/pods"
        self._note(params)
        script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
        if script and isinstance(script[0], KubeError):
            raise script[0]
        yield self._play(script)

    async def _play(self, script: list[Step]) -> AsyncIterator[bytes]:
        for step in script:
            if isinstance(step, bytes):
                yield step
            elif isinstance(step, KubeError):
                raise step
            else:
                await asyncio.sleep(step)

    def _note(self, params: Params) -> None:
        self.asked.append((asyncio.get_running_loop().time(), dict(params)))


@define
class Notes:
    """A sink that writes everything down."""

    told: list[str] = field(factory=list)

    def draft(self) -> Shelf:
        indexes: tuple[Index, ...] = ()
        return Shelf(Projected(KIND, lambda raw: raw["metadata"]["name"]), indexes)

    async def replace(self, draft: Shelf, version: str) -> None:
        self.told.append(f"replace {' '.join(sorted(key.name for key in draft.entries))} at {version}")

    async def take(self, event: WatchEvent) -> None:
        self.told.append(f"{event.type} {event.raw['metadata']['name']}")

    def reached(self, version: str) -> None:
        self.told.append(f"reached {version}")


def follow(wire: ScriptedWire, seconds: float, settings: ReflectorSettings | None = None) -> tuple[Notes, Reflector]:
    """Let a reflector run for so long; gives what it told."""
    notes = Notes()

    async def story() -> Reflector:
        reflector = Reflector(
            wire, Collection("/api/v1/pods", "application/json"), notes, settings or ReflectorSettings(), Random(7)
        )
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(seconds):
                await reflector.run()
        return reflector

    return notes, run_virtual(story())


def times(wire: ScriptedWire) -> list[float]:
    return [time for time, _ in wire.asked]


def test_a_streamed_list_is_shown_at_once_and_the_stream_goes_on_as_the_watch() -> None:
    wire = ScriptedWire([[synced(5, "x", "y"), event("MODIFIED", "x", 6), event("BOOKMARK", version=9), 1000.0]])

    notes, _ = follow(wire, 100)

    assert notes.told == ["replace x y at 5", "MODIFIED x", "reached 9"]
    assert wire.asked[0][1] == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "",
        "timeoutSeconds": wire.asked[0][1]["timeoutSeconds"],
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
    }
    assert 300 <= int(wire.asked[0][1]["timeoutSeconds"]) <= 600


def test_a_streamed_list_that_breaks_off_shows_nothing_of_it() -> None:
    wire = ScriptedWire([[event("ADDED", "half", 1), UnavailableError("cut off")], [synced(5, "whole"), 1000.0]])

    notes, _ = follow(wire, 100)

    assert notes.told == ["replace whole at 5"]


def test_a_watch_that_ends_is_opened_again_where_it_stopped_without_fetching_anew() -> None:
    wire = ScriptedWire([[synced(5, "x"), 60.0, event("BOOKMARK", version=8)], [event("MODIFIED", "x", 9), 1000.0]])

    notes, _ = follow(wire, 100)

    assert notes.told == ["replace x at 5", "reached 8", "MODIFIED x"]
    assert [params["resourceVersion"] for _, params in wire.asked] == ["", "8"]
    assert "sendInitialEvents" not in wire.asked[1][1]
    assert times(wire) == [0, 60]


def test_a_stream_with_events_is_resumed_at_once_but_at_most_once_a_second() -> None:
    busy: list[Step] = [event("MODIFIED", "x", 9)]
    wire = ScriptedWire([[synced(5, "x")], busy])

    follow(wire, 10.5)

    assert times(wire) == [float(second) for second in range(11)]


@pytest.mark.parametrize(
    "script",
    [
        [],
        [status(500)],
        [status(403)],
        [status(404)],
        [status(429)],
        [status(410, "Expired")],
        [UnavailableError("refused")],
        [UnexpectedAnswerError("an HTML page")],
        [b"<html>not json</html>\n"],
        [b'{"type": "ADDED", "obj'],
    ],
    ids=["closed", "500", "403", "404", "429", "410", "refused", "html answer", "html line", "half a line"],
)
@pytest.mark.parametrize("after", ["start", "sync"])
def test_a_server_that_only_fails_is_asked_at_most_once_a_second_after_ten_seconds(
    script: list[Step], after: str
) -> None:
    scripts: list[list[Step]] = [[synced(5, "x"), 10.0], script] if after == "sync" else [script]
    wire = ScriptedWire(scripts, lists=[status(500)])

    follow(wire, 80)

    late = [time for time in times(wire) if time >= 20]
    assert len(late) <= 60
    assert late, "it must not give up either"


def test_a_hint_of_the_server_is_honoured_when_it_is_longer_than_our_patience() -> None:
    wire = ScriptedWire([[status(429, retryAfterSeconds=50)], [synced(5), 1000.0]])

    follow(wire, 100)

    assert times(wire)[1] >= 50


@pytest.mark.parametrize("where", ["event", "answer"])
def test_an_expired_place_leads_to_a_fresh_state_not_older_than_the_known_one(where: str) -> None:
    gone: list[Step] = (
        [status(410, "Expired")]
        if where == "answer"
        else [orjson.dumps({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Gone"}}) + b"\n"]
    )
    wire = ScriptedWire([[synced(5, "x"), 60.0], gone, [synced(50, "y"), 1000.0]])

    notes, reflector = follow(wire, 100)

    assert notes.told == ["replace x at 5", "replace y at 50"]
    assert wire.asked[2][1]["resourceVersion"] == "5"
    assert wire.asked[2][1]["sendInitialEvents"] == "true"
    assert reflector.health.relists == {"start": 1, "expired": 1}


def test_a_fresh_state_that_is_expired_or_ahead_of_the_server_is_asked_for_without_a_version() -> None:
    ahead = error_from_watch_status(
        {"kind": "Status", "code": 504, "details": {"causes": [{"reason": "ResourceVersionTooLarge"}]}}
    )
    wire = ScriptedWire(
        [[synced(5, "x"), 60.0], [status(410, "Expired")], [status(410, "Expired")], [synced(2, "y"), 60.0], [ahead],
         [synced(1, "z"), 1000.0]]
    )  # fmt: skip

    notes, reflector = follow(wire, 200)

    assert notes.told == ["replace x at 5", "replace y at 2", "replace z at 1"]
    assert [params["resourceVersion"] for _, params in wire.asked] == ["", "5", "5", "", "2", ""]
    assert reflector.health.relists == {"start": 1, "expired": 1, "restored": 1}


@pytest.mark.parametrize("failure", [status(500, "InternalError"), status(403, "Forbidden"), UnavailableError("reset")])
def test_other_failures_of_a_watch_fetch_nothing_anew(failure: KubeError) -> None:
    wire = ScriptedWire([[synced(5, "x"), 60.0], [failure], [failure], [event("MODIFIED", "x", 6), 1000.0]])

    notes, reflector = follow(wire, 200)

    assert notes.told == ["replace x at 5", "MODIFIED x"]
    assert reflector.health.relists == {"start": 1}


def test_a_line_that_breaks_the_stream_again_and_again_is_got_around_by_a_fresh_state() -> None:
    poison: list[Step] = [b"not json\n"]
    wire = ScriptedWire([[synced(5, "x"), 60.0], poison, poison, poison, [synced(9, "x"), 1000.0]])

    notes, reflector = follow(wire, 200)

    assert notes.told == ["replace x at 5", "replace x at 9"]
    assert reflector.health.relists == {"start": 1, "broken": 1}


def listing(version: int, *names: str, token: str = "") -> dict[str, Any]:
    items = [{"metadata": {"name": name, "namespace": "a", "resourceVersion": "1"}} for name in names]
    return {"kind": "PodList", "metadata": {"resourceVersion": str(version), "continue": token}, "items": items}


@pytest.mark.parametrize(
    "page",
    [
        {"message": "sign in first"},
        {"kind": "PodList", "items": []},
        {"kind": "PodList", "metadata": [], "items": []},
        {"kind": "PodList", "metadata": {"resourceVersion": "5"}, "items": 3},
        {"kind": "Pod", "metadata": {"resourceVersion": "5"}},
    ],
)
def test_an_answer_that_is_no_list_is_not_taken_for_an_empty_one(page: dict[str, Any]) -> None:
    wire = ScriptedWire([[status(422, "Invalid")]], lists=[page])

    notes, reflector = follow(wire, 100)

    assert notes.told == []
    assert reflector.health.last_error is not None


def test_a_kind_that_is_not_served_is_told_with_what_to_do_and_found_when_it_appears(
    caplog: pytest.LogCaptureFixture,
) -> None:
    wire = ScriptedWire([[status(404)], [synced(5, "x"), 1000.0]])

    notes, reflector = follow(wire, 100)

    (line,) = (vars(record) for record in caplog.records if record.getMessage() == "watch failed, will retry")
    assert (line["path"], line["hint"].partition("?")[0]) == (
        "/api/v1/pods",
        "the server does not serve this kind; is its CRD installed",
    )
    assert notes.told == ["replace x at 5"]
    assert (reflector.health.trouble, reflector.health.hint) == ("", "")


def test_a_first_state_that_takes_long_and_fails_is_no_reason_to_ask_again_at_once() -> None:
    wire = ScriptedWire([[6.0, UnavailableError("overloaded", retry_after=20)]])

    follow(wire, 100)

    pauses = [later - earlier for earlier, later in itertools.pairwise(times(wire))]
    assert all(pause >= 26 for pause in pauses)


def test_a_refusal_in_the_middle_of_a_watch_fetches_nothing_anew() -> None:
    refusal = {"kind": "Status", "code": 422, "reason": "Invalid"}
    error = orjson.dumps({"type": "ERROR", "object": refusal}) + b"\n"
    wire = ScriptedWire([[synced(5, "x"), 60.0, error], [event("MODIFIED", "x", 6), 1000.0]])

    notes, reflector = follow(wire, 200)

    assert notes.told == ["replace x at 5", "MODIFIED x"]
    assert reflector.health.relists == {"start": 1}


def test_breaks_that_are_far_between_do_not_add_up() -> None:
    poison: list[Step] = [b"not json\n"]
    good: list[Step] = [event("MODIFIED", "x", 6), 60.0]
    wire = ScriptedWire([[synced(5, "x"), 60.0], poison, good, poison, good, poison, good, [1000.0]])

    _, reflector = follow(wire, 1000)

    assert reflector.health.relists == {"start": 1}


def test_a_server_that_refuses_streamed_lists_is_listed_in_pages_and_then_watched() -> None:
    wire = ScriptedWire(
        [[status(422, "Invalid")], [event("MODIFIED", "x", 6), 1000.0]],
        lists=[listing(5, "x", token="more"), listing(5, "y")],
    )

    notes, _ = follow(wire, 100)

    assert notes.told == ["replace x y at 5", "MODIFIED x"]
    assert [params.get("continue") for _, params in wire.asked] == [None, None, "more", None]
    assert wire.asked[1][1] == {"limit": "500"}


def test_a_server_that_ignores_the_wish_for_a_streamed_list_is_found_out_by_its_silence() -> None:
    wire = ScriptedWire([[event("ADDED", "x", 1), 1000.0], [1000.0]], lists=[listing(5, "x")])

    notes, _ = follow(wire, 100)

    assert notes.told == ["replace x at 5"]
    assert times(wire)[:2] == [0, 10]


def test_pages_that_expire_halfway_lead_to_one_request_for_everything() -> None:
    wire = ScriptedWire(
        [[status(400, "BadRequest")], [1000.0]],
        lists=[listing(5, "x", token="more"), status(410, "Expired"), listing(9, "x", "y")],
    )

    notes, _ = follow(wire, 100)

    assert notes.told == ["replace x y at 9"]
    assert [params.get("limit") for _, params in wire.asked[1:4]] == ["500", "500", None]


def test_objects_that_go_while_a_list_is_streamed_are_not_in_it() -> None:
    wire = ScriptedWire([[event("ADDED", "x", 1), event("DELETED", "x", 2), synced(5, "y"), 1000.0]])

    notes, _ = follow(wire, 100)

    assert notes.told == ["replace y at 5"]


def test_the_versions_of_initial_objects_say_nothing_about_how_far_we_are() -> None:
    wire = ScriptedWire([[event("ADDED", "x", 900), UnavailableError("cut off")], [synced(5), 1000.0]])

    follow(wire, 100)

    assert [params["resourceVersion"] for _, params in wire.asked] == ["", ""]
