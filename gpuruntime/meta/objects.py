"""Object metadata, and the base of typed kinds.

A kind is a frozen attrs class with `KIND` and whatever fields it has besides `metadata`::

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
        """The API group of the owner; owners are compared by group, as versions of one object come and go."""
        return self.api_version.rpartition("/")[0]


@frozen
class ObjectMeta(Struct):
    """The metadata of an object. Timestamps are RFC 3339 texts, see `gpuruntime.meta.timestamps`.

    What every stored object has is "" or 0, not None, before the server has set it.
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
    """What typed, dynamic and partial objects have in common."""

    @property
    def kind(self) -> ResourceKind: ...

    @property
    def metadata(self) -> ObjectMeta: ...

    @property
    def key(self) -> ObjectKey: ...


@frozen
class TypedObject(Struct):
    """The base of typed kinds. `apiVersion` and `kind` are not fields: they are written from `KIND`, and checked when
    present on the wire.
    """

    KIND: ClassVar[ResourceKind]

    metadata: ObjectMeta

    @property
    def kind(self) -> ResourceKind:
        return self.KIND

    @property
    def key(self) -> ObjectKey:
        return self.metadata.key
