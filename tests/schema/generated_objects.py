"""Hypothesis strategies for valid and almost valid JSON of a structural schema."""

import base64
import copy
from collections.abc import Callable
from typing import Any

from hypothesis import Phase
from hypothesis import strategies as st

from gpuruntime.schema.patterns import compiled

Strategy = st.SearchStrategy[Any]

# Surrogates have no UTF-8 form, so they are no JSON.
CHARACTERS = st.characters(exclude_categories=["Cs"])
INT64 = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
FREE = st.recursive(
    st.none() | st.booleans() | INT64 | FLOATS | st.text(CHARACTERS, max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(CHARACTERS, max_size=3), inner, max_size=3),
    max_leaves=5,
)
FORMATS: dict[str, Strategy] = {
    "byte": st.binary(min_size=1, max_size=9).map(lambda data: base64.b64encode(data).decode()),
    "date": st.dates().map(str),
    "date-time": st.datetimes().map(lambda moment: moment.isoformat() + "Z"),
    "uuid": st.uuids().map(str),
}
# Examples are small, and shrinking them over the network takes minutes.
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)
# One of each type, and numbers on both sides of what the server takes for an integer.
WRONG = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, -1, 1, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 10**25]),
    st.sampled_from([1.0, 0.5, -1.5, 1e300, 2.0**53 - 1, 2.0**53]),
    st.text(CHARACTERS, max_size=12),
    st.sampled_from(["\n", "a\n", "x\v", "é", "0", "-1", "1e1.5", "1.5Gi", "2020-02-30", "2020-01-01T00:00:60Z"]),
    st.lists(st.integers(0, 2), max_size=5),
    st.dictionaries(st.text("ab", max_size=1), st.integers(0, 2), max_size=5),
)


def valid(schema: dict[str, Any], *, embedded: bool = True) -> Strategy:
    """Valid values of the schema, CEL rules ignored; without `embedded`, no embedded Kubernetes objects."""
    values: Strategy
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "x-kubernetes-int-or-string" in schema:
        return INT64.filter(lambda number: number >= schema.get("minimum", number)) | _strings(schema)
    match schema.get("type"):
        case "string":
            values = _strings(schema)
        case "integer":
            values = st.integers(schema.get("minimum", -(2**63)), schema.get("maximum", 2**63 - 1))
        case "number":
            values = st.floats(schema.get("minimum"), schema.get("maximum"), allow_nan=False, allow_infinity=False)
        case "boolean":
            values = st.booleans()
        case "array":
            values = _lists(schema, embedded=embedded)
        case "object":
            values = _objects(schema, embedded=embedded)
        case _:
            values = FREE
    return values


def _strings(schema: dict[str, Any]) -> Strategy:
    if "format" in schema:
        return FORMATS[schema["format"]]
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    if "pattern" not in schema:
        return st.text(CHARACTERS, min_size=least, max_size=min(least + 10, most if most is not None else least + 10))
    texts = st.from_regex(compiled(schema["pattern"]))
    return texts.filter(lambda text: least <= len(text) <= (most if most is not None else len(text)))


def _lists(schema: dict[str, Any], *, embedded: bool) -> Strategy:
    keys = schema.get("x-kubernetes-list-map-keys")
    unique: Callable[[Any], Any] | None = None
    if keys is not None:
        properties = schema["items"]["properties"]
        unique = lambda item: tuple(repr(item.get(key) or properties[key].get("default")) for key in keys)  # noqa: E731
    elif schema.get("x-kubernetes-list-type") == "set":
        unique = repr
    least = schema.get("minItems", 0)
    most = min(least + 3, schema.get("maxItems", least + 3))
    return st.lists(valid(schema["items"], embedded=embedded), min_size=least, max_size=most, unique_by=unique)


def _objects(schema: dict[str, Any], *, embedded: bool) -> Strategy:
    if "additionalProperties" in schema:
        keys = st.text(CHARACTERS, max_size=4)
        most = min(3, schema.get("maxProperties", 3))
        members = valid(schema["additionalProperties"], embedded=embedded)
        return st.dictionaries(keys, members, min_size=schema.get("minProperties", 0), max_size=most)
    if "properties" not in schema:
        if "x-kubernetes-embedded-resource" not in schema:
            return st.dictionaries(st.text(CHARACTERS, max_size=3), FREE, max_size=3)
        whole = {"apiVersion": st.just("v1"), "kind": st.just("Thing"), "metadata": st.just({"name": "inner"})}
        return st.fixed_dictionaries(whole, optional={"spec": FREE})
    required, optional = {}, {}
    for name, inner in schema["properties"].items():
        if "x-kubernetes-embedded-resource" in inner and not embedded:
            continue
        if name in schema.get("required", ()):
            required[name] = valid(inner, embedded=embedded)
        else:
            optional[name] = valid(inner, embedded=embedded) | st.none()
    if "x-kubernetes-embedded-resource" in schema:
        required |= {"apiVersion": st.just("v1"), "kind": st.just("ConfigMap"), "metadata": st.just({"name": "inner"})}
        optional = {name: strategy for name, strategy in optional.items() if name not in required}
    # Few of many fields, so that examples stay small enough to shrink and to read.
    chosen = st.lists(st.sampled_from(sorted(optional)), max_size=4, unique=True) if optional else st.just([])
    return chosen.flatmap(lambda names: st.fixed_dictionaries(required | {name: optional[name] for name in names}))


def damaged(schema: dict[str, Any]) -> Strategy:
    """A valid value with one change, which may be valid or not."""
    return _damaged(valid(schema, embedded=False))


@st.composite
def _damaged(draw: st.DrawFn, sound: Strategy) -> Any:
    value = copy.deepcopy(draw(sound))
    paths = list(_paths(value))
    holder, key = draw(st.sampled_from(paths))
    match draw(st.sampled_from(["replace", "replace", "drop", "add", "double"])):
        case "drop":
            del holder[key]
        case "add" if isinstance(holder, dict):
            holder[draw(st.sampled_from(["unknown", "name", "grace", "a"]))] = draw(WRONG)
        case "double" if isinstance(holder, list):
            holder.append(copy.deepcopy(holder[key]))
        case _:
            holder[key] = draw(WRONG)
    return value


def _paths(value: Any) -> Any:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in members:
        yield value, key
        yield from _paths(inner)
