from collections.abc import Callable
from typing import Annotated, Any

import pytest
from attrs import frozen

from gpuruntime.meta import (
    EMPTY,
    Cel,
    Column,
    Default,
    Format,
    FrozenDict,
    Items,
    Length,
    MapOf,
    Pattern,
    Properties,
    QuantityRule,
    Range,
    SetOf,
    Struct,
    decode,
    encode,
)


@frozen
class Ruled(Struct):
    number: Annotated[int, Range(minimum=1)]
    inside: Annotated[str, Length(maximum=3)] | None = None
    around: Annotated[str | None, Length(maximum=3)] = None
    listed: Annotated[tuple[Annotated[str, Length(maximum=3)], ...], SetOf()] = ()
    mapped: FrozenDict[str, Annotated[int | str, QuantityRule()]] = EMPTY


def test_decoding_sees_the_types_inside_annotations_and_no_rules() -> None:
    wire = {"number": 0, "inside": "too long", "around": None, "listed": ["a", "a"], "mapped": {"cpu": 1, "gpu": "x"}}

    ruled = decode(Ruled, wire)

    assert (ruled.number, ruled.listed, ruled.mapped) == (0, ("a", "a"), {"cpu": 1, "gpu": "x"})
    assert encode(ruled) == wire


@pytest.mark.parametrize("bounds", [Range, Length, Items, Properties])
def test_bounds_need_a_limit_and_the_right_order(bounds: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="neither minimum nor maximum"):
        bounds()
    with pytest.raises(ValueError, match=r"maximum 1,.* minimum 2"):
        bounds(minimum=2, maximum=1)

    assert bounds(minimum=1, maximum=1).maximum == 1


@pytest.mark.parametrize("empty", [lambda: Pattern(""), lambda: Format(""), lambda: Cel(""), MapOf])
def test_an_empty_rule_is_rejected(empty: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match=r"must be"):
        empty()


def test_a_column_has_a_path() -> None:
    with pytest.raises(ValueError, match="json_path"):
        Column("Phase", "status.phase")


def test_rules_are_hashable_values() -> None:
    rules = {MapOf("name", "protocol"), Default([1, {"a": 2}]), Range(minimum=1)}

    assert rules == {MapOf("name", "protocol"), Default([1, {"a": 2}]), Range(minimum=1)}
