from datetime import UTC, datetime
from random import Random
from typing import Any, cast

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.control.events.series import InvalidEventError, Occurrence, event_name, reference_to, truncate
from gpuruntime.kube.builtin.events import ObjectReference
from gpuruntime.meta import ObjectMeta, PartialObject, ResourceKind, is_dns_subdomain

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
WIDGETS = ResourceKind("example.org", "v1", "Widget", "widgets", namespaced=True)
WIDGET = PartialObject(WIDGETS, ObjectMeta(name="web", namespace="shop", uid="u-1", resource_version="7"))


def occurrence(**changes: Any) -> Occurrence:
    given: dict[str, Any] = {
        "regarding": WIDGET,
        "type_": "Normal",
        "reason": "Created",
        "action": "Create",
        "note": "made it",
        "related": None,
        "at": NOW,
    }
    return Occurrence.of(**(given | changes))


def test_a_reference_has_all_identifying_fields_of_an_object() -> None:
    assert reference_to(WIDGET) == ObjectReference(
        api_version="example.org/v1", kind="Widget", namespace="shop", name="web", uid="u-1", resource_version="7"
    )


def test_the_key_does_not_depend_on_the_resource_version() -> None:
    newer = evolve(WIDGET, metadata=evolve(WIDGET.metadata, resource_version="8"))

    before, after = occurrence(related=WIDGET), occurrence(regarding=newer, related=newer)

    assert before.key == after.key
    assert (before.regarding.resource_version, after.regarding.resource_version) == ("7", "8")


def test_a_recreated_object_has_another_key() -> None:
    anew = evolve(WIDGET, metadata=evolve(WIDGET.metadata, uid="u-2"))

    assert occurrence().key != occurrence(regarding=anew).key


def test_reasons_actions_and_notes_are_truncated() -> None:
    made = occurrence(reason="R" * 200, action="é" * 200, note="日" * 2000)

    assert made.key.reason == "R" * 128
    assert made.key.action == "é" * 64
    assert made.note == "日" * 341


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"reason": ""}, "reason, got ''"),
        ({"action": " "}, "action, got ' '"),
        ({"type_": "Error"}, "type .*got 'Error'"),
        ({"regarding": ObjectReference(kind="Widget")}, "kind and a name"),
        ({"regarding": ObjectReference(name="web")}, "kind and a name"),
        ({"regarding": ObjectReference(kind="Widget", name="web", namespace="../x")}, "namespace, got '../x'"),
    ],
)
def test_an_invalid_event_is_refused(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidEventError, match=named):
        occurrence(**changes)


@given(text=st.text(st.characters(exclude_categories=())), limit=st.integers(0, 40))
def test_a_truncated_text_is_the_longest_prefix_that_fits(text: str, limit: int) -> None:
    encodable = text.encode("utf-8", "replace").decode()

    short = truncate(text, limit)

    assert encodable.startswith(short)
    assert len(short.encode()) <= limit
    if len(short) < len(encodable):
        assert len(encodable[: len(short) + 1].encode()) > limit


@given(name=st.one_of(st.text(max_size=400), st.from_regex(r"[-.a-zA-Z0-9:]{0,400}", fullmatch=True)))
def test_the_event_about_an_object_of_any_name_has_a_valid_name(name: str) -> None:
    assert is_dns_subdomain(event_name(ObjectReference(name=name), NOW, Random(1)))


def test_event_names_start_with_the_name_of_the_object_and_are_unique() -> None:
    random, about = Random(1), reference_to(WIDGET)

    names = {event_name(about, NOW, random) for _ in range(1000)}

    assert len(names) == 1000
    assert all(name.startswith("web.") for name in names)


def test_a_value_without_metadata_is_no_object() -> None:
    with pytest.raises(AttributeError):
        occurrence(regarding=cast("Any", "web"))
