from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.api.stockpool import StockPoolSpec
from gpuruntime.service.errors import InvalidRequestError
from gpuruntime.service.objects.merge_patch import changed, merged

VALUES = st.recursive(
    st.integers() | st.text(max_size=3), lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


@pytest.mark.parametrize(
    ("value", "change", "expected"),
    [
        ({"a": 1, "b": 2}, {"b": 3}, {"a": 1, "b": 3}),
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": None, "z": 3}}, {"a": {"x": 1, "z": 3}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": 1}, {"a": {"x": None, "y": 1}}, {"a": {"y": 1}}),
        ({"a": 1}, {"a": None, "b": None}, {}),
    ],
)
def test_what_is_absent_stays_null_removes_and_lists_are_replaced(value: Any, change: Any, expected: Any) -> None:
    assert merged(value, change) == expected


@given(OBJECTS, OBJECTS)
def test_a_change_that_is_made_twice_is_made_once(value: dict[str, Any], change: dict[str, Any]) -> None:
    once = merged(value, change)

    assert merged(once, change) == once
    assert merged(value, {}) == value


def test_a_change_that_takes_away_what_has_to_be_there_is_at_fault() -> None:
    pool = StockPoolSpec("g1.1", replicas=2)

    with pytest.raises(InvalidRequestError) as refused:
        changed(pool, {"specName": None})

    assert refused.value.problems == ("specName: required field is missing",)
    assert changed(pool, {"replicas": 3}) == StockPoolSpec("g1.1", replicas=3)
