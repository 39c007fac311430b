from typing import Annotated, Any, ClassVar

import pytest
from attrs import field, frozen

from gpuruntime.kube.builtin.apiextensions import CustomResourceDefinition
from gpuruntime.meta import Definition, Range, ResourceKind, Scale, Struct, TypedObject, decode, encode
from gpuruntime.schema.custom_resource import definition
from gpuruntime.schema.failures import DefinitionError
from tests.schema.rich_kind import Widget


def kind_in(version: str, *, group: str = "example.org", namespaced: bool = True) -> ResourceKind:
    return ResourceKind(group, version, "Gadget", "gadgets", namespaced=namespaced)


@frozen
class GadgetSpec(Struct):
    replicas: int = 0


@frozen
class Gadget(TypedObject):
    KIND = kind_in("v2")
    DEFINITION: ClassVar = Definition(singular="gizmo", list_kind="Gadgetry", short_names=("gg",))
    spec: GadgetSpec


@frozen
class OldGadget(TypedObject):
    KIND = kind_in("v1")
    DEFINITION: ClassVar = Definition(storage=False, deprecation="gadgets v1 are gone soon; use v2")
    spec: GadgetSpec


def test_a_definition_has_what_the_kind_declares() -> None:
    crd = definition(Widget)

    version = crd["spec"]["versions"][0]
    assert crd["metadata"] == {"name": "widgets.definitions.example.org"}
    assert crd["spec"]["scope"] == "Namespaced"
    assert crd["spec"]["names"] == {
        "kind": "Widget",
        "listKind": "WidgetList",
        "plural": "widgets",
        "singular": "widget",
        "shortNames": ["wd"],
        "categories": ["tests"],
    }
    assert (version["name"], version["served"], version["storage"]) == ("v1", True, True)
    assert version["subresources"] == {
        "status": {},
        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
    }
    assert version["additionalPrinterColumns"] == [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "description": "How big it is"},
        {"name": "Mode", "type": "string", "jsonPath": ".spec.mode", "priority": 1},
    ]


def test_a_definition_is_deterministic_and_decodes_to_the_builtin_type() -> None:
    crd = definition(Widget)

    assert crd == definition(Widget)
    assert encode(decode(CustomResourceDefinition, crd)) == crd


def test_versions_of_one_kind_make_one_definition() -> None:
    crd = definition(Gadget, OldGadget)

    current, old = crd["spec"]["versions"]
    assert crd["spec"]["names"]["singular"] == "gizmo"
    assert crd["spec"]["conversion"] == {"strategy": "None"}
    assert (current["storage"], old["storage"]) == (True, False)
    assert (old["deprecated"], old["deprecationWarning"]) == (True, "gadgets v1 are gone soon; use v2")


def with_kind(kind: ResourceKind, declaration: Any = None) -> type[TypedObject]:
    @frozen
    class Other(TypedObject):
        KIND = kind
        DEFINITION: ClassVar = declaration or Definition(storage=False)
        spec: GadgetSpec

    return Other


def test_a_kind_without_declaration_is_refused() -> None:
    @frozen
    class Derived(Gadget):
        """A subclass declares its own."""

    with pytest.raises(DefinitionError, match=r"Derived: .*DEFINITION"):
        definition(Derived)


@pytest.mark.parametrize(
    ("versions", "problem"),
    [
        ((), "storage versions: none"),
        ((OldGadget,), "storage versions: none"),
        ((Gadget, Gadget), "storage versions: Gadget, Gadget"),
        ((Gadget, with_kind(kind_in("v2"))), "same version"),
        ((Gadget, with_kind(kind_in("v1", group="other.org"))), "example.org/v2 Gadget"),
        ((Gadget, with_kind(kind_in("v1", namespaced=False))), "example.org/v2 Gadget"),
        ((with_kind(kind_in("v1", group=""), Definition()),), "core group"),
        ((with_kind(kind_in("v1"), Definition(scale=Scale(".spec.replicas", ".status.x"))),), "int"),
    ],
)
def test_types_of_different_kinds_are_refused(versions: tuple[type[TypedObject], ...], problem: str) -> None:
    with pytest.raises(DefinitionError, match=problem):
        definition(*versions)


def test_a_scaled_field_needs_the_range_that_the_server_allows() -> None:
    @frozen
    class ScaledSpec(Struct):
        replicas: Annotated[int, Range(minimum=0, maximum=2**31 - 1)] = 1

    @frozen
    class Scaled(TypedObject):
        KIND = kind_in("v1")
        DEFINITION: ClassVar = Definition(scale=Scale(".spec.replicas", ".status.replicas", ".status.selector"))
        spec: ScaledSpec
        status: ScaledSpec | None = None

    scale = definition(Scaled)["spec"]["versions"][0]["subresources"]["scale"]

    assert scale["labelSelectorPath"] == ".status.selector"


def test_a_required_status_is_refused() -> None:
    @frozen
    class Impatient(TypedObject):
        KIND = kind_in("v1")
        DEFINITION: ClassVar = Definition()
        spec: GadgetSpec = field(default=GadgetSpec())
        status: GadgetSpec = field(kw_only=True)

    with pytest.raises(DefinitionError, match=r"Impatient\.status: "):
        definition(Impatient)
