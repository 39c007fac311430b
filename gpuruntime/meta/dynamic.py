"""Objects without a Python type: the whole body, or the metadata only."""

from functools import cached_property
from typing import Any, Final, Self

from attrs import frozen

from gpuruntime.meta.codec import CONVERTER, decode
from gpuruntime.meta.decode_errors import DecodeError
from gpuruntime.meta.frozen_mapping import EMPTY, FrozenDict, freeze, thaw
from gpuruntime.meta.identity import ObjectKey, ResourceKind
from gpuruntime.meta.objects import ObjectMeta

__all__ = ["DynamicObject", "PartialObject"]

_PARTIAL: Final = ("meta.k8s.io/v1", "PartialObjectMetadata")


@frozen
class DynamicObject:
    """An object of any kind as deeply frozen JSON.

    Caveats: only `decode` checks the body. Metadata is decoded on first access, which raises `DecodeError` if it is
    malformed.
    """

    kind: ResourceKind
    body: FrozenDict[str, Any]

    @classmethod
    def decode(cls, kind: ResourceKind, value: Any) -> Self:
        """Freeze a JSON value.

        Raises:
            DecodeError: not a JSON object, or an object of another kind.
        """
        checked = _checked(kind, value, allowed=())
        try:
            return cls(kind, freeze(checked))
        except TypeError as error:
            raise DecodeError(str(kind), [f"{error} @ $"]) from error
        except RecursionError as error:
            raise DecodeError(str(kind), ["the value is nested too deeply @ $"]) from error

    @cached_property
    def metadata(self) -> ObjectMeta:
        return _metadata(self.body)

    @property
    def key(self) -> ObjectKey:
        return self.metadata.key


@frozen
class PartialObject:
    """The metadata of an object: the result of a metadata-only read, or the body of a metadata patch."""

    kind: ResourceKind
    metadata: ObjectMeta

    @classmethod
    def decode(cls, kind: ResourceKind, value: Any) -> Self:
        """Decode the metadata of a PartialObjectMetadata or of a complete object of the kind.

        Raises:
            DecodeError: not a JSON object, malformed metadata, or an object of another kind.
        """
        return cls(kind, _metadata(_checked(kind, value, allowed=(_PARTIAL,))))

    @property
    def key(self) -> ObjectKey:
        return self.metadata.key


def _checked(kind: ResourceKind, value: Any, allowed: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DecodeError(str(kind), [f"expected an object, got {type(value).__name__} @ $"])
    expected = (kind.api_version, kind.kind)
    found = (value.get("apiVersion", expected[0]), value.get("kind", expected[1]))
    if found != expected and found not in allowed:
        raise DecodeError(str(kind), [f"expected apiVersion and kind {expected}, got {found} @ $"])
    return value


def _metadata(body: dict[str, Any]) -> ObjectMeta:
    return decode(ObjectMeta, body.get("metadata", EMPTY), at=("metadata",))


def _type_fields(kind: ResourceKind) -> dict[str, Any]:
    return {"apiVersion": kind.api_version, "kind": kind.kind}


def _unstructure_dynamic(obj: DynamicObject) -> dict[str, Any]:
    body: dict[str, Any] = thaw(obj.body)
    return {**_type_fields(obj.kind), **body}


def _unstructure_partial(obj: PartialObject) -> dict[str, Any]:
    return {**_type_fields(obj.kind), "metadata": CONVERTER.unstructure(obj.metadata)}


CONVERTER.register_unstructure_hook(DynamicObject, _unstructure_dynamic)
CONVERTER.register_unstructure_hook(PartialObject, _unstructure_partial)
