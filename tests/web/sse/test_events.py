import json
from typing import Any

import pytest

from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.meta import ObjectMeta
from gpuruntime.meta.codec import decode
from gpuruntime.service.reads.watch_log import Step
from gpuruntime.web.sse.events import LiveEvents
from gpuruntime.web.sse.unit_events import UNIT_EVENTS
from gpuruntime.web.sse.views import SharedViews


def unit(name: str, spec_name: str, version: str = "7") -> GPUUnit:
    return GPUUnit(ObjectMeta(name=name, namespace="n", resource_version=version), GPUUnitSpec(spec_name))


def step(before: str | None, after: str | None) -> Step[GPUUnit]:
    return Step("9", unit("a", before) if before else None, unit("a", after, "9") if after else None)


def following(*, with_ids: bool = True) -> LiveEvents[GPUUnit]:
    """Somebody who follows the units of one flavour."""
    return LiveEvents(lambda found: found.spec.spec_name == "g1", SharedViews(Namespaces()).clear, with_ids)


def read(event: bytes) -> tuple[str, str | None, Any]:
    """Its name, its id and its data; the id may be empty, or not be there."""
    parts = (line.partition(":") for line in event.decode().strip().splitlines())
    lines = {name: text.removeprefix(" ") for name, _, text in parts}
    return lines["event"], lines.get("id"), json.loads(lines["data"])


@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        (None, "g1", "added"),
        ("g2", "g1", "added"),
        ("g1", "g1", "modified"),
        ("g1", "g2", "deleted"),
        ("g1", None, "deleted"),
    ],
)
def test_an_object_that_begins_to_match_is_added_and_one_that_ceases_to_is_deleted(
    before: str | None, after: str | None, name: str
) -> None:
    event = read(following().of_step(step(before, after), ""))

    assert (event[0], event[1], event[2]["name"]) == (name, "9", "a")


@pytest.mark.parametrize(("before", "after"), [(None, "g2"), ("g2", "g3"), ("g2", None)])
def test_what_never_matched_is_not_told(before: str | None, after: str | None) -> None:
    assert following().of_step(step(before, after), "") == b""


def test_what_was_seen_in_the_full_state_is_not_told_again() -> None:
    added = step(None, "g1")

    assert following().of_step(added, "9") == b""
    assert following().of_step(added, "10") == b""
    assert read(following().of_step(added, "8"))[0] == "added"


def test_only_the_end_of_the_full_state_is_a_place_to_come_back_to_and_its_beginning_takes_the_last_one_back() -> None:
    state = [read(event) for event in following().of_state([unit("a", "g1")], "12")]
    without = [read(event)[1] for event in following(with_ids=False).of_state([unit("a", "g1")], "12")]

    assert [(name, place) for name, place, _ in state] == [("reset", ""), ("added", None), ("synced", "12")]
    assert state[-1][2] == {"resourceVersion": "12", "count": 1}
    assert without == [None, None, None]


def test_every_event_and_what_its_data_is_are_described() -> None:
    changes = ((None, "g1"), ("g1", "g1"), ("g1", None))
    sent = [*following().of_state([unit("a", "g1")], "12"), *(following().of_step(step(*one), "") for one in changes)]

    decoded = {name: decode(UNIT_EVENTS[name], data) for name, _, data in map(read, sent)}

    assert {name: type(data) for name, data in decoded.items()} == dict(UNIT_EVENTS)
