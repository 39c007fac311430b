"""Which field manager is reported for which field."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.control.writing.managed_fields import last_manager_of

Json = dict[str, Any]
CONTAINER = 'k:{"name":"web"}'


def managed(*entries: tuple[str, str, dict[str, Any]]) -> dict[str, Any]:
    """An object whose fields were set by (manager, day, fields)."""
    fields = [
        {"manager": manager, "operation": "Update", "time": f"2026-01-{day}T00:00:00Z", "fieldsV1": owned}
        for manager, day, owned in entries
    ]
    return {"metadata": {"managedFields": fields}}


REPLICAS: Json = {"f:spec": {"f:replicas": {}}}
IMAGE: Json = {"f:spec": {"f:containers": {CONTAINER: {".": {}, "f:name": {}, "f:image": {}}}}}
LABELS: Json = {"f:metadata": {"f:labels": {".": {}, "f:app": {}, "f:example.org/tier": {}}}}
FINALIZERS: Json = {"f:metadata": {"f:finalizers": {'v:"example.org/done"': {}}}}
ARGUMENTS: Json = {"f:spec": {"f:containers": {CONTAINER: {"f:args": {}}}}}


@pytest.mark.parametrize(
    ("path", "fields", "theirs"),
    [
        ("spec.replicas", REPLICAS, True),
        ("spec", REPLICAS, True),
        ("spec.replicasMax", REPLICAS, False),
        ("spec.paused", REPLICAS, False),
        ("spec.containers[name=web].image", IMAGE, True),
        ("spec.containers[0].image", IMAGE, True),
        ("spec.containers[name=a.b/c].image", IMAGE, False),
        ("spec.containers[name=web].args", IMAGE, False),
        ("spec.containers[name=web]", IMAGE, True),
        ("spec.containers[name=web].args[0]", ARGUMENTS, True),
        ("metadata.labels.app", LABELS, True),
        ("metadata.labels.role", LABELS, False),
        ("metadata.labels[example.org/tier]", LABELS, True),
        ("metadata.labels[example.org/role]", LABELS, False),
        ("metadata.labels", LABELS, True),
        ("metadata.labels.app", {"f:metadata": {"f:labels": {".": {}}}}, True),
        ("metadata.finalizers[0]", FINALIZERS, True),
        ("spec.replicas", {}, False),
        ("", REPLICAS, False),
    ],
)
def test_managers_of_the_field_of_its_parts_and_of_atomic_parents_are_found(
    path: str, fields: dict[str, Any], theirs: bool
) -> None:
    found = last_manager_of(path, managed(("other", "01", fields)), except_for={"us"})

    assert found == ("other" if theirs else None)


def test_the_last_writer_comes_first_and_excepted_managers_never() -> None:
    raw = managed(("old", "02", REPLICAS), ("new", "10", REPLICAS), ("us", "20", REPLICAS), ("labeller", "30", LABELS))

    assert last_manager_of("spec.replicas", raw, except_for={"us"}) == "new"
    assert last_manager_of("spec.replicas", raw, except_for={"new"}) == "us"
    assert last_manager_of("spec.replicas", managed(("us", "01", REPLICAS)), except_for={"us"}) is None


def test_the_creator_of_a_map_does_not_manage_the_entries_of_others() -> None:
    raw = managed(("maker", "30", LABELS), ("other", "01", {"f:metadata": {"f:labels": {"f:role": {}}}}))

    assert last_manager_of("metadata.labels.role", raw, except_for={"us"}) == "other"


@pytest.mark.parametrize("raw", [{}, {"metadata": None}, {"metadata": {}}, {"metadata": {"managedFields": None}}])
def test_an_object_without_managed_fields_has_no_managers(raw: dict[str, Any]) -> None:
    assert last_manager_of("spec.replicas", raw, except_for={"us"}) is None


NAMES = st.text("abc", min_size=1, max_size=3)


@given(path=st.lists(NAMES, min_size=1, max_size=5), is_element=st.lists(st.booleans(), min_size=5, max_size=5))
def test_every_field_finds_its_own_manager(path: list[str], is_element: list[bool]) -> None:
    fields: dict[str, Any] = {}
    for step, is_list in reversed(list(zip(path, is_element, strict=False))):
        fields = {f"f:{step}": {'k:{"name":"x"}': fields} if is_list else fields}
    text = ".".join(f"{step}[name=x]" if is_list else step for step, is_list in zip(path, is_element, strict=False))

    assert last_manager_of(text, managed(("other", "01", fields)), except_for={"us"}) == "other"
