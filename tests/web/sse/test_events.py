import json
from typing import Any

import pytest

from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.api.rest.gpu_units import UnitView
from gpuruntime.meta import ObjectMeta
from gpuruntime.meta.codec import decode
from gpuruntime.service.reads.watch_log import Step
from gpuruntime.web.resources.unit_models import unit_view
from gpuruntime.web.sse.events import EventEncoder, watch_events
from gpuruntime.web.sse.view_cache import ViewCache


def unit(name: str, spec_name: str, version: str = "7") -> GPUUnit:
    return GPUUnit(ObjectMeta(name=name, namespace="n", resource_version=version), GPUUnitSpec(spec_name))


def step(before: str | None, after: str | None) -> Step[GPUUnit]:
    return Step("9", unit("a", before) if before else None, unit("a", after, "9") if after else None)


def encoder(*, with_ids: bool = True) -> EventEncoder[GPUUnit]:
    """The encoder of a client that watches the units of one flavour."""
    return EventEncoder(
        lambda found: found.spec.spec_name == "g1",
        ViewCache(lambda found: unit_view(found, Namespaces())).unmasked,
        with_ids,
    )


def read(event: bytes) -> tuple[str, str | None, Any]:
    """Its name, its id and its data; the id may be empty or absent."""
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
def test_an_object_that_starts_to_match_is_added_and_one_that_stops_is_deleted(
    before: str | None, after: str | None, name: str
) -> None:
    event = read(encoder().of_step(step(before, after), ""))

    assert (event[0], event[1], event[2]["name"]) == (name, "9", "a")


@pytest.mark.parametrize(("before", "after"), [(None, "g2"), ("g2", "g3"), ("g2", None)])
def test_a_change_that_never_matched_has_no_event(before: str | None, after: str | None) -> None:
    assert encoder().of_step(step(before, after), "") == b""


def test_a_change_that_is_in_the_full_state_has_no_event() -> None:
    added = step(None, "g1")

    assert encoder().of_step(added, "9") == b""
    assert encoder().of_step(added, "10") == b""
    assert read(encoder().of_step(added, "8"))[0] == "added"


def test_reset_clears_the_event_id_and_synced_sets_it() -> None:
    state = [read(event) for event in encoder().of_state([unit("a", "g1")], "12")]
    without = [read(event)[1] for event in encoder(with_ids=False).of_state([unit("a", "g1")], "12")]

    assert [(name, event_id) for name, event_id, _ in state] == [("reset", ""), ("added", None), ("synced", "12")]
    assert state[-1][2] == {"resourceVersion": "12", "count": 1}
    assert without == [None, None, None]


def test_the_data_of_every_event_has_the_declared_type() -> None:
    changes = ((None, "g1"), ("g1", "g1"), ("g1", None))
    sent = [*encoder().of_state([unit("a", "g1")], "12"), *(encoder().of_step(step(*one), "") for one in changes)]

    decoded = {name: decode(watch_events(UnitView)[name], data) for name, _, data in map(read, sent)}

    assert {name: type(data) for name, data in decoded.items()} == dict(watch_events(UnitView))
