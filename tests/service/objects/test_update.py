from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuruntime.api.stockpool import StockPoolSpec
from gpuruntime.service.errors import InvalidRequestError
from gpuruntime.service.objects.update import merge, patched

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
def test_absent_fields_stay_null_removes_and_lists_are_replaced(value: Any, change: Any, expected: Any) -> None:
    assert merge(value, change) == expected


@settings(max_examples=40)
@given(OBJECTS, OBJECTS)
def test_a_merge_patch_is_idempotent(value: dict[str, Any], change: dict[str, Any]) -> None:
    once = merge(value, change)

    assert merge(once, change) == once
    assert merge(value, {}) == value


def test_a_patch_that_removes_a_required_field_is_invalid() -> None:
    pool = StockPoolSpec("g1.1", replicas=2)

    with pytest.raises(InvalidRequestError) as refused:
        patched(pool, {"specName": None})

    assert [(found.path, found.rule) for found in refused.value.violations] == [("specName", "required")]
    assert patched(pool, {"replicas": 3}) == StockPoolSpec("g1.1", replicas=3)
