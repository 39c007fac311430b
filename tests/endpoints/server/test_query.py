from typing import Any

import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st
from multidict import MultiDict

from gpuruntime.endpoints.server.errors import ApiError
from gpuruntime.endpoints.server.query import NoQuery, parse_query
from gpuruntime.meta.structs import Struct
from tests.endpoints.endpoint_scenes import WidgetQuery


@frozen
class Timed(Struct):
    timeout: float | None = None


def test_values_are_parsed_by_the_type_of_their_field() -> None:
    found = parse_query(MultiDict({"limit": "10", "watch": "true", "phase": "1"}), WidgetQuery)

    assert (found.limit, found.watch, found.phase) == (10, True, "1")


@pytest.mark.parametrize(("text", "value"), [("1", True), ("TRUE", True), ("0", False), ("false", False)])
def test_booleans_have_two_spellings(text: str, value: bool) -> None:
    assert parse_query(MultiDict({"watch": text}), WidgetQuery).watch is value


@pytest.mark.parametrize(("text", "value"), [("60", 60.0), ("0.5", 0.5)])
def test_a_float_may_have_a_fraction(text: str, value: float) -> None:
    assert parse_query(MultiDict({"timeout": text}), Timed).timeout == value


@pytest.mark.parametrize(
    ("query", "faults"),
    [
        ([("color", "red")], {"?color": "unknown"}),
        ([("limit", "0")], {"?limit": "minimum"}),
        ([("limit", "ten"), ("watch", "maybe")], {"?limit": "type", "?watch": "type"}),
        ([("limit", "1_0")], {"?limit": "type"}),
        ([("limit", "٣")], {"?limit": "type"}),
        ([("limit", "9" * 30)], {"?limit": "type"}),
        ([("limit", "")], {"?limit": "type"}),
        ([("phase", "a"), ("phase", "b")], {"?phase": None}),
    ],
)
def test_invalid_parameters_are_rejected_by_name(query: list[tuple[str, str]], faults: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as caught:
        parse_query(MultiDict(query), WidgetQuery)

    assert {fault.path: fault.rule for fault in caught.value.details} == faults


def test_a_route_without_a_query_rejects_every_parameter() -> None:
    assert parse_query(MultiDict(), NoQuery) == NoQuery()
    with pytest.raises(ApiError):
        parse_query(MultiDict({"x": "1"}), NoQuery)


@given(st.lists(st.tuples(st.sampled_from(["limit", "watch", "phase", "x"]), st.text(max_size=8)), max_size=4))
def test_any_query_is_either_parsed_or_rejected(query: list[tuple[str, str]]) -> None:
    try:
        found: Any = parse_query(MultiDict(query), WidgetQuery)
    except ApiError as error:
        found = error.status

    assert found == 400 or isinstance(found, WidgetQuery)
