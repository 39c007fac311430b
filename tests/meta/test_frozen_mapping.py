import copy
import pickle
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.meta.frozen_mapping import EMPTY, FrozenDict, freeze, thaw

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=25
)

MUTATIONS: list[Callable[[Any], object]] = [
    lambda mapping: mapping.__setitem__("a", 2),
    lambda mapping: mapping.__delitem__("a"),
    lambda mapping: mapping.__ior__({"b": 2}),
    lambda mapping: mapping.clear(),
    lambda mapping: mapping.pop("a"),
    lambda mapping: mapping.popitem(),
    lambda mapping: mapping.setdefault("b", 2),
    lambda mapping: mapping.update(b=2),
]


@pytest.mark.parametrize("mutate", MUTATIONS)
def test_no_method_changes_it(mutate: Callable[[Any], object]) -> None:
    mapping = FrozenDict({"a": 1})

    with pytest.raises(TypeError, match="FrozenDict"):
        mutate(mapping)

    assert mapping == {"a": 1}


def test_every_mutator_that_dict_has_is_covered() -> None:
    readers = {"copy", "fromkeys", "get", "items", "keys", "values"}
    mutators = {name for name in vars(dict) if not name.startswith("_")} - readers

    assert mutators == {"clear", "pop", "popitem", "setdefault", "update"}
    assert all(name in vars(FrozenDict) for name in [*mutators, "__setitem__", "__delitem__", "__ior__"])


def test_it_has_no_instance_attributes() -> None:
    with pytest.raises(AttributeError):
        FrozenDict().note = 1  # type: ignore[attr-defined]  # that it fails is the test


def test_a_union_is_frozen_and_changes_neither_operand() -> None:
    left, right = FrozenDict({"a": 1, "b": 1}), {"b": 2}

    both = left | right
    reverse = right | left

    assert (both, type(both)) == ({"a": 1, "b": 2}, FrozenDict)
    assert (reverse, type(reverse)) == ({"a": 1, "b": 1}, FrozenDict)
    assert (left, right) == ({"a": 1, "b": 1}, {"b": 2})


def test_a_union_with_something_else_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        FrozenDict() | 1  # type: ignore[operator]  # that it fails is the test


def test_a_copy_is_a_plain_dict_to_edit() -> None:
    draft = FrozenDict({"a": 1}).copy()

    draft["a"] = 2

    assert type(draft) is dict


def test_it_is_hashable_when_its_values_are() -> None:
    assert hash(FrozenDict(a=1, b=2)) == hash(FrozenDict(b=2, a=1))
    with pytest.raises(TypeError):
        hash(FrozenDict(a=[]))


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])  # noqa: S301  # our own bytes
def test_copies_are_frozen_as_well(duplicate: Callable[[Any], Any]) -> None:
    original = FrozenDict({"a": FrozenDict({"b": 1})})

    twin = duplicate(original)

    assert twin == original
    assert (type(twin), type(twin["a"])) == (FrozenDict, FrozenDict)


@given(json_values)
def test_freezing_and_thawing_round_trips(value: Any) -> None:
    frozen = freeze(value)

    assert thaw(frozen) == value
    assert freeze(frozen) == frozen
    hash(frozen)


@given(json_values)
def test_orjson_writes_frozen_values_natively(value: Any) -> None:
    assert orjson.dumps(freeze(value)) == orjson.dumps(value)


def test_thawing_gives_a_value_to_edit_and_keeps_the_original() -> None:
    original = freeze({"a": [{"b": 1}]})

    draft = thaw(original)
    draft["a"][0]["b"] = 2

    assert original == {"a": ({"b": 1},)}


def test_empty_objects_are_shared() -> None:
    assert freeze({}) is EMPTY


@pytest.mark.parametrize("value", [{"a": datetime.now(UTC)}, {1: "a"}, [{"a": {None: 1}}], {"a"}, b"bytes"])
def test_values_that_are_not_json_are_rejected(value: Any) -> None:
    with pytest.raises(TypeError):
        freeze(value)
