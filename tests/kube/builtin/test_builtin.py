"""Properties of every built-in kind. The official client, generated from the API schema, is the oracle."""

import types
from collections.abc import Callable, Iterator
from importlib import import_module
from pkgutil import iter_modules
from types import NoneType
from typing import Any, Literal, Union, get_args, get_origin

import pytest
from attrs import NOTHING, fields, resolve_types
from attrs.exceptions import FrozenInstanceError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kubernetes.client import models

import gpuruntime.kube.builtin
from gpuruntime.meta.codec import DecodeError, decode, encode
from gpuruntime.meta.conversion.value_hooks import without_rules
from gpuruntime.meta.frozen_mapping import FrozenDict
from gpuruntime.meta.objects import TypedObject
from gpuruntime.meta.structs import Struct, default_of, wire_name

MODULES = [
    import_module(f"gpuruntime.kube.builtin.{module.name}") for module in iter_modules(gpuruntime.kube.builtin.__path__)
]
KINDS = sorted(
    {
        value
        for module in MODULES
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, TypedObject) and value is not TypedObject
    },
    key=lambda kind: kind.__name__,
)
MODELS = {
    "Event": "EventsV1Event",
    "HorizontalPodAutoscaler": "V2HorizontalPodAutoscaler",
    "ResourceClaim": "ResourceV1ResourceClaim",
}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)


# One strategy per class, so that classes may refer to themselves.
STRATEGIES: dict[type[Struct], st.SearchStrategy[dict[str, Any]]] = {}


def wire_values(annotation: Any) -> st.SearchStrategy[Any]:
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
    plain = {str: st.text(max_size=3), int: st.integers(-2, 2), bool: st.booleans(), NoneType: st.none()}
    return plain.get(annotation, json_values)


def wire_objects(cls: type[Struct]) -> st.SearchStrategy[dict[str, Any]]:
    """JSON that matches a type, with some optional and some unknown fields."""
    if cls not in STRATEGIES:
        STRATEGIES[cls] = new_wire_objects(cls)
    return STRATEGIES[cls]


def new_wire_objects(cls: type[Struct]) -> st.SearchStrategy[dict[str, Any]]:
    known = [attribute for attribute in fields(resolve_types(cls)) if attribute.name != "extra"]
    required = {wire_name(one): wire_values(without_rules(one.type)) for one in known if default_of(one) is NOTHING}
    optional = {
        wire_name(one): st.none() | wire_values(without_rules(one.type))
        for one in known
        if wire_name(one) not in required
    }
    some = st.sets(st.sampled_from(sorted(optional)), max_size=4) if optional else st.just(set[str]())
    chosen = some.flatmap(lambda names: st.fixed_dictionaries({name: optional[name] for name in sorted(names)}))
    unknown = st.dictionaries(st.text(max_size=3).map(lambda key: f"x-{key}"), json_values, max_size=1)
    return st.builds(lambda a, b, c: {**a, **b, **c}, unknown, chosen, st.fixed_dictionaries(required))


def spoiled(value: Any, choose: Callable[[int], int], spoiler: Any) -> Any:
    """The value with one part of it, somewhere inside, replaced."""
    parts = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    chosen = choose(len(parts))
    if chosen == len(parts):
        return spoiler
    copied = value.copy()
    copied[parts[chosen]] = spoiled(value[parts[chosen]], choose, spoiler)
    return copied


def mutable_parts(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, Struct):
        for attribute in fields(type(value)):
            with pytest.raises(FrozenInstanceError):
                setattr(value, attribute.name, None)
            yield from mutable_parts(getattr(value, attribute.name), f"{path}.{attribute.name}")
    elif type(value) in {FrozenDict, tuple}:
        for item in value.values() if isinstance(value, dict) else value:
            yield from mutable_parts(item, f"{path}[]")
    elif value is not None and type(value) not in {str, int, bool}:
        yield f"{path}: {type(value)}"


def unlike(cls: type[Struct], model: str, path: str) -> Iterator[str]:
    """Fields that the official model lacks or has with another type."""
    official: Any = getattr(models, model)
    types_by_wire = {wire: official.openapi_types[name] for name, wire in official.attribute_map.items()}
    for attribute in fields(resolve_types(cls)):
        if attribute.name == "extra":
            continue
        where = f"{path}.{wire_name(attribute)}"
        found = types_by_wire.get(wire_name(attribute))
        if found is None:
            yield f"{where} is unknown to {model}"
        else:
            yield from unlike_type(attribute.type, found, where)


def unlike_type(annotation: Any, official: str, where: str) -> Iterator[str]:
    members = [member for member in get_args(annotation) if member is not NoneType]
    if get_origin(annotation) in {Union, types.UnionType} and len(members) == 1:
        yield from unlike_type(members[0], official, where)
    elif get_origin(annotation) is tuple and official.startswith("List["):
        yield from unlike_type(members[0], official[len("List[") : -1], where)
    elif isinstance(annotation, type) and issubclass(annotation, Struct):
        if not hasattr(models, official):
            yield f"{where} is {official}, not an object"
        # Pods, nodes and the rest declare conditions of their own, with the same core.
        elif not official.endswith("Condition"):
            yield from unlike(annotation, official, where)
    elif get_origin(annotation) is FrozenDict:
        if not (official.startswith("Dict[") or hasattr(models, official)):
            yield f"{where} is {official}, not a map"
    elif annotation in {str, int, bool} and official not in {annotation.__name__, "datetime"}:
        yield f"{where} is {official}, not {annotation.__name__}"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_declared_field_is_one_of_the_api(kind: type[TypedObject]) -> None:
    model = MODELS.get(kind.__name__, f"V1{kind.__name__}")

    differences = list(unlike(kind, model, kind.__name__))

    assert differences == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_known_and_unknown_fields_survive_exactly_and_frozen(kind: type[TypedObject]) -> None:
    type_fields = {"apiVersion": kind.KIND.api_version, "kind": kind.KIND.kind}

    @settings(max_examples=10, suppress_health_check=list(HealthCheck))
    @given(wire_objects(kind))
    def survives(value: dict[str, Any]) -> None:
        decoded = decode(kind, value)

        assert encode(decoded) == {**type_fields, **value}
        assert list(mutable_parts(decoded, kind.__name__)) == []

    survives()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_corrupted_object_decodes_exactly_or_is_a_decode_error(kind: type[TypedObject]) -> None:
    type_fields = {"apiVersion": kind.KIND.api_version, "kind": kind.KIND.kind}

    @settings(max_examples=10, suppress_health_check=list(HealthCheck))
    @given(wire_objects(kind), json_values, st.data())
    def holds(value: dict[str, Any], spoiler: Any, data: st.DataObject) -> None:
        wire = spoiled({**type_fields, **value}, lambda most: data.draw(st.integers(0, most)), spoiler)
        try:
            decoded = decode(kind, wire)
        except DecodeError:
            return
        assert encode(decoded) == {**type_fields, **wire}

    holds()


def test_the_kinds_are_those_that_controllers_need() -> None:
    assert [kind.__name__ for kind in KINDS] == [
        "ClusterRole",
        "ClusterRoleBinding",
        "ConfigMap",
        "CronJob",
        "CustomResourceDefinition",
        "DaemonSet",
        "Deployment",
        "Event",
        "HorizontalPodAutoscaler",
        "Ingress",
        "Job",
        "Lease",
        "Namespace",
        "NetworkPolicy",
        "Node",
        "PersistentVolumeClaim",
        "Pod",
        "PodDisruptionBudget",
        "PriorityClass",
        "ReplicaSet",
        "ResourceClaim",
        "ResourceQuota",
        "Role",
        "RoleBinding",
        "Secret",
        "Service",
        "ServiceAccount",
        "StatefulSet",
        "SubjectAccessReview",
        "TokenReview",
    ]
    assert all(kind.KIND.kind == kind.__name__ for kind in KINDS)
    assert len({kind.KIND for kind in KINDS}) == len(KINDS)
