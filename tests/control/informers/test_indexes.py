"""Which values an index finds in an object."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.control.informers.indexes import Index, by_controller, by_field, by_label, by_owner

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


def values(index: Index, raw: Any) -> list[str]:
    return list(index.values(raw))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ("node-1", ["node-1"]),
        ("", [""]),
        (3, ["3"]),
        (0, ["0"]),
        (1.5, ["1.5"]),
        (True, ["true"]),
        (False, ["false"]),
        (None, []),
        ([1], []),
        ({"b": 1}, []),
    ],
)
def test_a_field_is_indexed_by_its_text_number_or_boolean_and_by_nothing_else(found: Any, expected: list[str]) -> None:
    assert values(by_field("spec.a"), {"spec": {"a": found}}) == expected


@pytest.mark.parametrize("raw", [{}, {"spec": None}, {"spec": {}}, {"spec": "a"}, {"spec": [{"a": "x"}]}])
def test_an_object_without_the_field_is_not_in_the_index(raw: Any) -> None:
    assert values(by_field("spec.a"), raw) == []


@given(raw=st.dictionaries(st.sampled_from("abc"), JSON), path=st.lists(st.sampled_from("abc"), min_size=1, max_size=3))
def test_whatever_is_at_a_path_gives_one_text_at_most(raw: dict[str, Any], path: list[str]) -> None:
    found = values(by_field(".".join(path)), raw)

    assert len(found) <= 1
    assert all(isinstance(value, str) for value in found)


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({}, []),
        ({"labels": None}, []),
        ({"labels": {"tier": "web"}}, []),
        ({"labels": {"app": "x", "tier": "web"}}, ["x"]),
        ({"labels": {"app": ""}}, [""]),
    ],
)
def test_a_label_is_indexed_by_its_value(metadata: dict[str, Any], expected: list[str]) -> None:
    assert values(by_label("app"), {"metadata": metadata}) == expected


@pytest.mark.parametrize(
    ("references", "owners", "controllers"),
    [
        (None, [], []),
        ([], [], []),
        ([{"uid": "1"}, {"uid": "2", "controller": True}], ["1", "2"], ["2"]),
        ([{"uid": "1", "controller": False}], ["1"], []),
    ],
)
def test_owners_are_indexed_by_uid_and_the_one_that_controls_by_itself(
    references: Any, owners: list[str], controllers: list[str]
) -> None:
    raw = {"metadata": {"ownerReferences": references}}

    assert values(by_owner(), raw) == owners
    assert values(by_controller(), raw) == controllers
    assert values(by_owner(), {"metadata": {}}) == values(by_controller(), {"metadata": {}}) == []


def test_the_name_is_that_of_what_is_indexed() -> None:
    names = [index.name for index in (by_field("spec.nodeName"), by_label("app"), by_owner(), by_controller())]

    assert names == ["spec.nodeName", "label:app", "owner", "controller"]
