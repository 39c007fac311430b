"""Object metadata, and the base class of typed kinds.

A kind is a frozen attrs class with `KIND` and its fields besides `metadata`::

    @frozen
    class Widget(TypedObject):
        KIND = ResourceKind("example.org", "v1", "Widget", "widgets", namespaced=True)
        spec: WidgetSpec
        status: WidgetStatus | None = None
"""

from typing import Any, ClassVar, Protocol

from attrs import field, frozen

from gpuruntime.meta.frozen_mapping import EMPTY, FrozenDict
from gpuruntime.meta.identity import ObjectKey, ResourceKind
from gpuruntime.meta.structs import Struct

__all__ = ["KubeObject", "ObjectMeta", "OwnerReference", "TypedObject"]


@frozen
class OwnerReference(Struct):
    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None

    @property
    def group(self) -> str:
        """The API group of the owner. Owners are compared by group, because a kind may have several versions."""
        return self.api_version.rpartition("/")[0]


@frozen
class ObjectMeta(Struct):
    """The metadata of an object. Timestamps are RFC 3339 strings, see `gpuruntime.meta.timestamps`.

    Fields that every stored object has are "" or 0, not None, until the server has set them.
    """

    name: str = ""
    namespace: str = ""
    generate_name: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: FrozenDict[str, str] = EMPTY
    annotations: FrozenDict[str, str] = EMPTY
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()
    managed_fields: tuple[FrozenDict[str, Any], ...] = field(default=(), repr=False)

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.namespace, self.name)


class KubeObject(Protocol):
    """The common interface of typed, dynamic and partial objects."""

    @property
    def kind(self) -> ResourceKind: ...

    @property
    def metadata(self) -> ObjectMeta: ...

    @property
    def key(self) -> ObjectKey: ...


@frozen
class TypedObject(Struct):
    """The base class of typed kinds. `apiVersion` and `kind` are not fields: they are encoded from `KIND`, and checked
    if present when decoding.
    """

    KIND: ClassVar[ResourceKind]

    metadata: ObjectMeta

    @property
    def kind(self) -> ResourceKind:
        return self.KIND

    @property
    def key(self) -> ObjectKey:
        return self.metadata.key
