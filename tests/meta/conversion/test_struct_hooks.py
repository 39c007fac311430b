import types
from typing import Any, Literal, Union, get_args, get_origin

import pytest
from attrs import NOTHING, evolve, field, fields, frozen, resolve_types, validators
from attrs.exceptions import FrozenInstanceError
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.meta.codec import DecodeError, UnsupportedTypeError, decode, encode
from gpuruntime.meta.frozen_mapping import EMPTY, FrozenDict
from gpuruntime.meta.structs import Struct, default_of, wire, wire_name

scalars = st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | st.text(max_size=3)
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)


@frozen
class Port(Struct):
    number: int
    target: int | str | None = None


@frozen
class Tree(Struct):
    """Refers to itself, and has every type of default."""

    name: str
    label: str = ""
    count: int = 1
    ratio: float | None = None
    paused: bool = False
    mode: Literal["Fast", "Slow"] | None = None
    cluster_ip: str | None = field(default=None, metadata=wire("clusterIP"))
    finalizers: tuple[str, ...] = ()
    ports: tuple[Port, ...] | None = None
    labels: FrozenDict[str, str] = EMPTY
    options: FrozenDict[str, Any] | None = None
    first: Port = field(default=Port(80))
    children: "tuple[Tree, ...]" = ()
    token: str | None = field(default=None, metadata=wire(sensitive=True))
    anything: Any = None


# One strategy per class, so that classes may refer to themselves.
STRATEGIES: dict[type[Struct], st.SearchStrategy[dict[str, Any]]] = {}


def wire_values(annotation: Any) -> st.SearchStrategy[Any]:
    """JSON that matches a type: the inverse of decoding, generated from the declaration."""
    origin, args = get_origin(annotation), get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return st.deferred(lambda: wire_objects(annotation))
    if origin is tuple:
        return st.lists(wire_values(args[0]), max_size=2)
    if origin is FrozenDict:
        return st.dictionaries(st.text(max_size=3), wire_values(args[1]), max_size=2)
    if origin in {Union, types.UnionType}:
        return st.one_of([wire_values(arg) for arg in args])
    if origin is Literal:
        return st.sampled_from(args)
    plain = {str: st.text(max_size=3), int: st.integers(-2, 2), float: st.floats(allow_nan=False), bool: st.booleans()}
    return json_values if annotation is Any else plain.get(annotation, st.none())


def wire_objects(cls: type[Struct]) -> st.SearchStrategy[dict[str, Any]]:
    if cls not in STRATEGIES:
        STRATEGIES[cls] = new_wire_objects(cls)
    return STRATEGIES[cls]


def new_wire_objects(cls: type[Struct]) -> st.SearchStrategy[dict[str, Any]]:
    known = [attribute for attribute in fields(resolve_types(cls)) if attribute.name != "extra"]
    required = {wire_name(one): wire_values(one.type) for one in known if default_of(one) is NOTHING}
    optional = {wire_name(one): st.none() | wire_values(one.type) for one in known if wire_name(one) not in required}
    unknown = st.dictionaries(st.text(max_size=3).map(lambda key: f"x-{key}"), json_values, max_size=2)
    return st.builds(lambda a, b: {**b, **a}, st.fixed_dictionaries(required, optional=optional), unknown)


def assert_immutable(value: Any) -> None:
    if isinstance(value, Struct):
        for attribute in fields(type(value)):
            with pytest.raises(FrozenInstanceError):
                setattr(value, attribute.name, None)
            with pytest.raises(FrozenInstanceError):
                delattr(value, attribute.name)
            assert_immutable(getattr(value, attribute.name))
    elif isinstance(value, dict):
        assert type(value) is FrozenDict
        for item in value.values():
            assert_immutable(item)
    elif isinstance(value, tuple):
        for item in value:
            assert_immutable(item)
    else:
        assert value is None or type(value) in {str, int, float, bool}


@given(wire_objects(Tree))
def test_known_and_unknown_fields_survive_exactly(value: dict[str, Any]) -> None:
    decoded = decode(Tree, value)

    assert encode(decoded) == value
    assert decode(Tree, encode(decoded)) == decoded


@given(wire_objects(Tree))
def test_decoded_objects_are_immutable(value: dict[str, Any]) -> None:
    decoded = decode(Tree, value)

    assert_immutable(decoded)
    hash(decoded)


@given(wire_objects(Tree), st.integers(-2, 2))
def test_a_changed_field_is_written_and_all_others_stay(value: dict[str, Any], count: int) -> None:
    changed = evolve(decode(Tree, value), count=count)

    encoded = encode(changed)

    assert {**encoded, "count": None} == {**value, "count": None}
    assert encoded.get("count") in {None, 1} if count == 1 else encoded["count"] == count


@given(json_values)
def test_arbitrary_json_decodes_exactly_or_is_a_decode_error(value: Any) -> None:
    try:
        decoded = decode(Tree, value)
    except DecodeError:
        return
    assert encode(decoded) == value


@given(wire_objects(Tree), st.sampled_from(["name", "count", "ports", "labels", "children", "first", "mode"]))
def test_a_field_of_the_wrong_type_is_named(value: dict[str, Any], wire_field: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(Tree, {**value, wire_field: 1.5})

    assert len(caught.value.failures) == 1
    assert caught.value.failures[0].endswith(f"got 1.5 @ $.{wire_field}")


def test_an_already_decoded_part_is_used_as_it_is() -> None:
    port = decode(Port, {"number": 80, "target": "http", "x-new": 1})

    tree = decode(Tree, {"name": "a", "first": port})

    assert tree.first is port
    assert encode(tree)["first"] == {"number": 80, "target": "http", "x-new": 1}


def test_all_failures_are_reported_at_once() -> None:
    value = {
        "label": 1,
        "ports": [{"number": "80"}, {"target": []}],
        "children": [{"name": "x", "count": 1.0}],
        "first": None,
    }

    with pytest.raises(DecodeError) as caught:
        decode(Tree, value)

    assert caught.value.failures == (
        "expected a string, got 1 @ $.label",
        "expected an integer, got '80' @ $.ports[0].number",
        "expected an integer or a string, got a list @ $.ports[1].target",
        "required field is missing @ $.ports[1].number",
        "expected an integer, got 1.0 @ $.children[0].count",
        "required field is missing @ $.name",
    )


def test_a_sensitive_value_is_never_quoted() -> None:
    with pytest.raises(DecodeError, match=r"@ \$\.token") as caught:
        decode(Tree, {"name": "x", "token": 123456})

    assert "123456" not in str(caught.value)


def test_a_null_for_a_required_field_is_rejected() -> None:
    with pytest.raises(DecodeError, match=r"null @ \$\.name"):
        decode(Tree, {"name": None})


def test_a_validator_error_is_a_decode_error_at_the_object() -> None:
    @frozen
    class Checked(Struct):
        number: int = field(validator=validators.ge(0))
        port: int | str = field(default=0, validator=validators.instance_of(int))

    @frozen
    class Holder(Struct):
        parts: tuple[Checked, ...]

    with pytest.raises(DecodeError) as caught:
        decode(Holder, {"parts": [{"number": 0}, {"number": -1}, {"number": 0, "port": "http"}]})

    assert [failure.rpartition(" @ ")[2] for failure in caught.value.failures] == ["$.parts[1]", "$.parts[2]"]


def test_keys_and_values_that_json_cannot_hold_are_rejected_by_name() -> None:
    with pytest.raises(DecodeError) as caught:
        decode(Tree, {"name": "x", 1: 2, "when": {"day": object()}})

    assert caught.value.failures == (
        "expected a string as key, got 1 @ $",
        "expected a JSON value, got object @ $.when",
    )


def test_a_field_of_an_unsupported_type_is_a_mistake_in_the_declaration_not_in_the_input() -> None:
    @frozen
    class Mutable(Struct):
        names: list[str]

    @frozen
    class Holder(Struct):
        inner: Mutable | None = None

    with pytest.raises(UnsupportedTypeError, match=r"names of .*Mutable .*list"):
        decode(Holder, {"inner": {"names": []}})
