from collections.abc import Mapping
from datetime import datetime
from enum import Enum, IntEnum, StrEnum
from typing import Any, Literal

import pytest
from attrs import frozen

from gpuruntime.meta.codec import DecodeError, decode, encode
from gpuruntime.meta.conversion.value_hooks import UnsupportedTypeError, require_supported
from gpuruntime.meta.frozen_mapping import FrozenDict
from gpuruntime.meta.structs import Struct


class Phase(str, Enum):  # noqa: UP042  # the older spelling must work as well as StrEnum
    RUNNING = "Running"
    DONE = "Done"


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    ONE = 1


class Mixed(Enum):
    NO = "no"


@frozen
class Part(Struct):
    n: int


@frozen
class Everything(Struct):
    text: str | None = None
    whole: int | None = None
    real: float | None = None
    flag: bool | None = None
    port: int | str | None = None
    choice: Literal["a", 1] | None = None
    phase: Phase | None = None
    colour: Colour | None = None
    level: Level | None = None
    mixed: Mixed | None = None
    parts: tuple[Part, ...] = ()
    phases: tuple[Phase, ...] = ()
    by_name: FrozenDict[str, Part] | None = None
    by_phase: FrozenDict[str, Phase] | None = None
    nested: FrozenDict[str, tuple[str, ...]] | None = None
    maybe: tuple[int | None, ...] | None = None
    free: Any = None


GOOD: list[tuple[str, Any]] = [
    ("text", ""),
    ("whole", -(2**63)),
    ("real", 1.5),
    ("real", 1),
    ("flag", False),
    ("port", 80),
    ("port", "http"),
    ("choice", "a"),
    ("choice", 1),
    ("phase", "Running"),
    ("colour", "red"),
    ("level", 1),
    ("mixed", "no"),
    ("parts", [{"n": 1}, {"n": 2, "more": []}]),
    ("phases", ["Running", "Done"]),
    ("byName", {"x/y": {"n": 1}}),
    ("byName", {}),
    ("byPhase", {"x": "Done"}),
    ("nested", {"a": [], "b": ["c"]}),
    ("maybe", [1, None]),
    ("maybe", []),
    ("free", {"a": [1, {"b": None}]}),
]

BAD: list[tuple[str, Any, str]] = [
    ("text", 1, "expected a string, got 1 @ $.text"),
    ("whole", "3", "expected an integer, got '3' @ $.whole"),
    ("whole", True, "expected an integer, got true @ $.whole"),
    ("whole", 3.0, "expected an integer, got 3.0 @ $.whole"),
    ("real", "1.5", "expected a number, got '1.5' @ $.real"),
    ("real", True, "expected a number, got true @ $.real"),
    ("flag", 0, "expected a boolean, got 0 @ $.flag"),
    ("flag", "true", "expected a boolean, got 'true' @ $.flag"),
    ("port", True, "expected an integer or a string, got true @ $.port"),
    ("port", 1.0, "expected an integer or a string, got 1.0 @ $.port"),
    ("choice", "b", "expected one of 'a', 1, got 'b' @ $.choice"),
    ("choice", True, "expected one of 'a', 1, got true @ $.choice"),
    ("phase", "Lost", "expected one of 'Running', 'Done', got 'Lost' @ $.phase"),
    ("phase", ["Running"], "expected one of 'Running', 'Done', got a list @ $.phase"),
    ("level", True, "expected 1, got true @ $.level"),
    ("level", 1.0, "expected 1, got 1.0 @ $.level"),
    ("parts", {"n": 1}, "expected a list, got an object @ $.parts"),
    ("parts", "text", "expected a list, got 'text' @ $.parts"),
    ("parts", [{"n": 1}, None], "expected an object, got null @ $.parts[1]"),
    ("byName", [], "expected an object, got a list @ $.byName"),
    ("byName", {"x/y": {"n": "1"}}, "expected an integer, got '1' @ $.byName['x/y'].n"),
    ("byName", {1: {"n": 1}}, "expected a string as key, got 1 @ $.byName"),
    ("nested", {"a": ["b", 1]}, "expected a string, got 1 @ $.nested.a[1]"),
    ("free", {1: 2}, "expected a string as key of a JSON object, got int @ $.free"),
]


@pytest.mark.parametrize(("wire", "value"), GOOD)
def test_a_value_of_the_right_type_round_trips(wire: str, value: Any) -> None:
    decoded = decode(Everything, {wire: value})
    encoded = encode(decoded)

    assert encoded == {wire: value}
    assert type(encoded[wire]) is type(value)


@pytest.mark.parametrize(("wire", "value", "failure"), BAD)
def test_a_value_of_another_type_is_rejected_and_never_coerced(wire: str, value: Any, failure: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(Everything, {wire: value})

    assert caught.value.failures == (failure,)


def test_enums_become_members_and_collections_become_immutable() -> None:
    decoded = decode(Everything, {"phase": "Done", "phases": ["Running"], "byName": {"a": {"n": 1}}, "free": [{}]})

    assert (decoded.phase, decoded.phases) == (Phase.DONE, (Phase.RUNNING,))
    assert decoded.by_name == FrozenDict(a=Part(1))
    assert decoded.free == (FrozenDict(),)


def test_encoding_returns_plain_values_and_no_enum_members() -> None:
    encoded = encode(Everything(phase=Phase.DONE, colour=Colour.RED, level=Level.ONE, phases=(Phase.RUNNING,)))

    assert [type(encoded[key]) for key in ("phase", "colour", "level")] == [str, str, int]
    assert type(encoded["phases"][0]) is str


@pytest.mark.parametrize(
    "annotation",
    [list[str], dict[str, str], tuple[str, int], FrozenDict[int, str], Mapping[str, str], datetime, bytes, Part | str,
     tuple[list[str], ...], set[str], FrozenDict, Literal[Phase.DONE]],
)  # fmt: skip
def test_a_type_that_is_mutable_or_lossy_is_rejected(annotation: Any) -> None:
    with pytest.raises(UnsupportedTypeError, match="field x of Y"):
        require_supported(annotation, "field x of Y")
