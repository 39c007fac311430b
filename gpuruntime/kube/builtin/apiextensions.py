"""apiextensions.k8s.io/v1: CustomResourceDefinition; schemas are arbitrary JSON."""

from typing import Any

from attrs import field, frozen

from gpuruntime.meta.conditions import Condition
from gpuruntime.meta.frozen_mapping import FrozenDict
from gpuruntime.meta.identity import ResourceKind
from gpuruntime.meta.objects import TypedObject
from gpuruntime.meta.structs import Struct

__all__ = [
    "CustomResourceDefinition",
    "CustomResourceDefinitionNames",
    "CustomResourceDefinitionSpec",
    "CustomResourceDefinitionStatus",
]


@frozen
class CustomResourceDefinitionNames(Struct):
    plural: str
    kind: str
    singular: str | None = None
    list_kind: str | None = None
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


@frozen
class CustomResourceDefinitionSpec(Struct):
    group: str
    names: CustomResourceDefinitionNames
    scope: str
    versions: tuple[FrozenDict[str, Any], ...]


@frozen
class CustomResourceDefinitionStatus(Struct):
    conditions: tuple[Condition, ...] = ()
    stored_versions: tuple[str, ...] = ()


@frozen
class CustomResourceDefinition(TypedObject):
    KIND = ResourceKind(
        "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
    )

    spec: CustomResourceDefinitionSpec
    status: CustomResourceDefinitionStatus = field(default=CustomResourceDefinitionStatus())
