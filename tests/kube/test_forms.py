"""Forms ask for the right thing and make the right thing of it; the server agrees."""

from typing import Any

import pytest
from attrs import frozen

from gpuruntime.kube import Transport, as_form, dynamic, metadata_only, typed
from gpuruntime.kube.builtin.core import ConfigMap, Namespace
from gpuruntime.kube.forms import Form, class_of, form_of
from gpuruntime.kube.transport.request import Request
from gpuruntime.meta import (
    DecodeError,
    DynamicObject,
    FrozenDict,
    ObjectMeta,
    PartialObject,
    ResourceKind,
    Struct,
    TypedObject,
)

BODY = {"metadata": {"name": "a", "namespace": "b"}, "data": {"c": "d"}}
FORMS: list[Form[Any]] = [typed(ConfigMap), dynamic(ConfigMap.KIND), metadata_only(ConfigMap.KIND)]


@pytest.mark.parametrize("form", FORMS)
def test_an_item_of_a_list_is_equal_to_the_object_by_itself(form: Form[Any]) -> None:
    item, alone = form.decode(BODY), form.decode({"apiVersion": "v1", "kind": "ConfigMap", **BODY})

    assert item == alone
    assert form_of(item) == form


@pytest.mark.parametrize("form", FORMS)
def test_an_object_of_another_kind_is_refused(form: Form[Any]) -> None:
    with pytest.raises(DecodeError):
        form.decode({"apiVersion": "v1", "kind": "Secret", **BODY})


def test_equal_forms_are_one_key() -> None:
    again = [typed(ConfigMap), dynamic(ConfigMap.KIND), metadata_only(ConfigMap.KIND), as_form(ConfigMap)]

    assert len({*FORMS, *again}) == 3


def test_the_class_of_a_kind_is_a_form_and_no_other_class_is() -> None:
    form = as_form(ConfigMap)

    assert form.kind == ConfigMap.KIND
    assert as_form(form) is form
    assert form.decode(BODY).metadata == ObjectMeta(name="a", namespace="b")
    for stranger in (dict, TypedObject):
        with pytest.raises(TypeError, match="TypedObject"):
            as_form(stranger)


def test_a_class_that_no_object_can_be_read_into_is_no_form() -> None:
    class Part(Struct):
        size: int = 0

    @frozen
    class Whole(TypedObject):
        KIND = ResourceKind("example.org", "v1", "Whole", "wholes", namespaced=True)
        spec: FrozenDict[str, tuple[Part, ...]] | None = None

    class Forgotten(TypedObject):
        KIND = ResourceKind("example.org", "v1", "Forgotten", "forgottens", namespaced=True)
        spec: FrozenDict[str, str]

    with pytest.raises(TypeError, match=r"Part\.size .*@frozen"):
        as_form(Whole)
    with pytest.raises(TypeError, match=r"Forgotten\.spec .*@frozen"):
        as_form(Forgotten)


def test_an_object_is_not_taken_for_its_class() -> None:
    home = Namespace(ObjectMeta(name="home"))

    with pytest.raises(TypeError, match="Namespace"):
        as_form(home)  # type: ignore[arg-type]  # the mistake under test


def test_a_typed_form_knows_its_class() -> None:
    assert class_of(as_form(Namespace)) is Namespace
    assert class_of(dynamic(Namespace.KIND)) is None


def test_only_objects_have_a_form() -> None:
    with pytest.raises(TypeError, match="ObjectMeta"):
        form_of(ObjectMeta())  # type: ignore[arg-type]  # the mistake under test


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (typed(Namespace), Namespace),
        (dynamic(Namespace.KIND), DynamicObject),
        (metadata_only(Namespace.KIND), PartialObject),
    ],
)
async def test_the_server_sends_each_form_for_objects_lists_and_watches(
    transport: Transport, form: Form[Any], expected: type[Any]
) -> None:
    path = form.kind.path()
    one = await transport.send(Request("GET", f"{path}/default", accept=form.accept))
    many = await transport.send(Request("GET", path, accept=form.list_accept))
    async with transport.stream(
        Request("GET", path, params={"watch": "1", "timeoutSeconds": "1"}, accept=form.accept), idle_timeout=30.0
    ) as chunks:
        watched = await anext(chunks)

    objects = [one.json_object(), *many.json_object()["items"]]
    assert {type(form.decode(raw)) for raw in objects} == {expected}
    assert (b"PartialObjectMetadata" in watched) is (expected is PartialObject)
    assert all(("status" in raw) is (expected is not PartialObject) for raw in objects)
