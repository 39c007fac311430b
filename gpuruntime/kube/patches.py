"""The three patch types of an API server besides server-side apply."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self

from attrs import field, frozen

from gpuruntime.meta.frozen_mapping import EMPTY, FrozenDict, freeze

__all__ = ["JsonPatch", "MergePatch", "Patch", "StrategicPatch"]


def _frozen_object(value: Mapping[str, Any]) -> FrozenDict[str, Any]:
    frozen_value: FrozenDict[str, Any] = freeze(dict(value))
    return frozen_value


def _frozen_operations(value: Iterable[Mapping[str, Any]]) -> tuple[FrozenDict[str, Any], ...]:
    return tuple(_frozen_object(operation) for operation in value)


@frozen
class _ObjectPatch:
    body: FrozenDict[str, Any] = field(converter=_frozen_object)

    def locked(self, resource_version: str) -> Self:
        """The same patch with a version: it fails with ConflictError if the object changed since.

        Raises:
            ValueError: the version is empty.
        """
        if not resource_version:
            raise ValueError("expected the resource version of the object to patch, got an empty string")
        metadata = self.body.get("metadata", EMPTY) | {"resourceVersion": resource_version}
        return type(self)(self.body | {"metadata": metadata})


@frozen
class MergePatch(_ObjectPatch):
    """RFC 7386: objects are merged, null removes, lists are replaced as a whole. For any kind."""

    CONTENT_TYPE: ClassVar = "application/merge-patch+json"


@frozen
class StrategicPatch(_ObjectPatch):
    """A merge patch that merges lists with a merge key, such as containers. For built-in kinds only."""

    CONTENT_TYPE: ClassVar = "application/strategic-merge-patch+json"


@frozen
class JsonPatch:
    """RFC 6902: a list of operations, which may test a value before they replace it. For any kind."""

    CONTENT_TYPE: ClassVar = "application/json-patch+json"

    body: tuple[FrozenDict[str, Any], ...] = field(converter=_frozen_operations)


Patch = MergePatch | StrategicPatch | JsonPatch
