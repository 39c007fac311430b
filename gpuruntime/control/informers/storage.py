"""How a store keeps the objects of a kind: as typed objects, as compact bytes, or as a projection.

Typed objects cost the most memory and nothing to read: use them for the kinds that a controller works on. Bytes cost
the least memory and are decoded when read: for kinds of which few objects are read. A projection keeps what a function
picks: for kinds of which a few fields are read often.
"""

from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

import orjson
from attrs import frozen

from gpuruntime.control.informers.compact_labels import labels_first, selects
from gpuruntime.kube.forms import Form, as_form
from gpuruntime.meta.identity import ResourceKind
from gpuruntime.meta.label_selectors import Selector

__all__ = [
    "Compact",
    "Eager",
    "OfForm",
    "Projected",
    "Storage",
    "Transform",
    "compact",
    "drop_managed_fields",
    "eager",
    "projected",
    "trim_metadata",
]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Transform = Callable[[dict[str, Any]], dict[str, Any]]

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_PLAIN = "application/json"


def drop_managed_fields(raw: dict[str, Any]) -> dict[str, Any]:
    """Drop managedFields: half of most objects, and half of the cost of decoding them."""
    metadata = raw.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
    return raw


def trim_metadata(raw: dict[str, Any]) -> dict[str, Any]:
    """Drop the metadata that no controller reads: managedFields and kubectl's last-applied-configuration."""
    metadata = drop_managed_fields(raw).get("metadata")
    if isinstance(metadata, dict):
        annotations = metadata.get("annotations")
        if isinstance(annotations, dict):
            annotations.pop(_LAST_APPLIED, None)
    return raw


class Storage(Protocol[T_co]):
    """How to keep the objects of one kind. Equal storages share one store."""

    @property
    def kind(self) -> ResourceKind: ...

    @property
    def accept(self) -> str:
        """The media types to accept in a watch."""

    @property
    def list_accept(self) -> str:
        """The media types to accept in a list."""

    @property
    def transform(self) -> Transform:
        """Called with every object before all else; may change the dict in place."""

    def keep(self, raw: dict[str, Any]) -> Any:
        """What to keep of an object; raises DecodeError, or what a projection raises."""

    def read(self, kept: Any) -> T_co:
        """The object, deeply immutable; raises DecodeError if it does not fit its type."""


@frozen
class OfForm(Generic[T]):
    """The base of storages of whole objects: they accept what their form accepts."""

    form: Form[T]
    transform: Transform = trim_metadata

    @property
    def kind(self) -> ResourceKind:
        return self.form.kind

    @property
    def accept(self) -> str:
        return self.form.accept

    @property
    def list_accept(self) -> str:
        return self.form.list_accept


@frozen
class Eager(OfForm[T]):
    """Keeps decoded objects: a read costs nothing and returns the same object to all readers."""

    def keep(self, raw: dict[str, Any]) -> T:
        return self.form.decode(raw)

    def read(self, kept: T) -> T:
        return kept


@frozen
class Compact(OfForm[T]):
    """Keeps JSON bytes, decoded when read: a third of the memory, and nothing for the garbage collector to walk.

    The labels come first, so that objects can be selected by them without decoding more.
    """

    def keep(self, raw: dict[str, Any]) -> bytes:
        # A copy: orjson shrinks its result in place, and the rest of its buffer stays allocated, which doubles the
        # memory of a store.
        return bytes(memoryview(orjson.dumps(labels_first(raw))))

    def read(self, kept: bytes) -> T:
        return self.form.decode(orjson.loads(kept))

    def selects(self, selector: Selector) -> Callable[[bytes], bool]:
        """A function that matches the labels of a kept object without decoding it."""
        return selects(selector)


@frozen
class Projected(Generic[T]):
    """Keeps only what `project` returns for an object: an immutable value, and never None, which means no object."""

    kind: ResourceKind
    project: Callable[[Mapping[str, Any]], T]
    accept: str = _PLAIN
    list_accept: str = _PLAIN
    transform: Transform = trim_metadata

    def keep(self, raw: dict[str, Any]) -> T:
        kept = self.project(raw)
        if kept is None:
            raise TypeError(f"the projection of {self.kind} returned None, expected a value for every object")
        return kept

    def read(self, kept: T) -> T:
        return kept


def eager(form: type[T] | Form[T], transform: Transform = trim_metadata) -> Eager[T]:
    """Keep objects decoded."""
    return Eager(as_form(form), transform)


def compact(form: type[T] | Form[T], transform: Transform = trim_metadata) -> Compact[T]:
    """Keep objects as bytes, decoded on reading."""
    return Compact(as_form(form), transform)


def projected(
    kind: ResourceKind, project: Callable[[Mapping[str, Any]], T], transform: Transform = trim_metadata
) -> Projected[T]:
    """Keep what `project` returns for an object."""
    return Projected(kind, project, transform=transform)
