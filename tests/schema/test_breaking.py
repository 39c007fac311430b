import copy
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from attrs import frozen

from gpuruntime.meta import Definition, ResourceKind, Struct, TypedObject
from gpuruntime.schema.breaking import breaking_changes
from gpuruntime.schema.custom_resource import definition
from tests.schema.rich_kind import Widget


@frozen
class GadgetSpec(Struct):
    size: int
    color: str | None = None


@frozen
class NewGadgetSpec(Struct):
    size: int


@frozen
class Gadget(TypedObject):
    KIND = ResourceKind("example.org", "v1", "Gadget", "gadgets", namespaced=True)
    DEFINITION: ClassVar = Definition(storage=False)
    spec: GadgetSpec


@frozen
class StoredGadget(TypedObject):
    KIND = Gadget.KIND
    DEFINITION: ClassVar = Definition()
    spec: GadgetSpec


@frozen
class NewGadget(TypedObject):
    KIND = ResourceKind("example.org", "v2", "Gadget", "gadgets", namespaced=True)
    DEFINITION: ClassVar = Definition()
    spec: NewGadgetSpec


def version_of(crd: dict[str, Any]) -> dict[str, Any]:
    version: dict[str, Any] = crd["spec"]["versions"][0]
    return version


def problems(change: Callable[[dict[str, Any]], Any]) -> list[str]:
    new = copy.deepcopy(definition(Widget))
    change(new)
    return [str(breakage) for breakage in breaking_changes(definition(Widget), new)]


def test_an_unchanged_definition_breaks_nothing_even_as_completed_by_the_server() -> None:
    served = copy.deepcopy(definition(Widget))
    served["spec"]["conversion"] = {"strategy": "None"}
    served["status"] = {"storedVersions": ["v1"], "conditions": []}

    assert breaking_changes(definition(Widget), definition(Widget)) == ()
    assert breaking_changes(served, definition(Widget)) == ()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda crd: crd["spec"].update(scope="Cluster"), "breaking: spec.scope "),
        (lambda crd: crd["spec"].update(group="b.org"), "breaking: spec.group "),
        (lambda crd: crd["spec"]["names"].update(plural="widgetry"), "breaking: spec.names.plural "),
        (lambda crd: crd["spec"]["names"].pop("shortNames"), "warning: spec.names.shortNames wd "),
        (lambda crd: version_of(crd).update(served=False), "breaking: spec.versions[v1].served "),
        (lambda crd: version_of(crd)["subresources"].pop("status"), "subresources.status was removed"),
        (lambda crd: version_of(crd)["subresources"].pop("scale"), "subresources.scale was removed"),
        (
            lambda crd: version_of(crd)["subresources"].update(scale={"specReplicasPath": ".spec.size"}),
            "subresources.scale changes",
        ),
        (
            lambda crd: version_of(crd)["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"].pop("low"),
            "breaking: spec.versions[v1].schema.spec.low ",
        ),
    ],
)
def test_each_part_of_a_definition_is_compared(change: Callable[[dict[str, Any]], Any], problem: str) -> None:
    (found,) = problems(change)

    assert problem in found


def test_a_new_status_subresource_is_breaking() -> None:
    without = copy.deepcopy(definition(Widget))
    del version_of(without)["subresources"]["status"]

    (found,) = breaking_changes(without, definition(Widget))

    assert "subresources.status is new" in str(found)


def test_a_version_with_stored_objects_must_stay() -> None:
    (found, *_) = breaking_changes(definition(StoredGadget), definition(NewGadget))

    assert (found.severity, found.path) == ("breaking", "spec.versions[v1]")
    assert "stored" in found.problem


def test_a_former_storage_version_must_stay_until_it_leaves_stored_versions() -> None:
    both = definition(Gadget, NewGadget)
    remembered = {**both, "status": {"storedVersions": ["v1", "v2"]}}

    (for_clients,) = breaking_changes(both, definition(NewGadget))
    (for_objects,) = breaking_changes(remembered, definition(NewGadget))

    assert "clients" in for_clients.problem
    assert "stored" in for_objects.problem


def test_a_new_storage_version_is_compared_with_the_old_one() -> None:
    (found,) = breaking_changes(definition(StoredGadget), definition(Gadget, NewGadget))

    assert str(found).startswith("breaking: spec.versions[v2].schema.spec.color ")
