"""The form in which objects of a kind are read: a typed class, free JSON, or metadata only.

Every parameter of type Form accepts the class of a typed kind as well: `client.get(Pod, ...)`.
"""

from typing import Any, Final, Protocol, TypeVar, cast

from attrs import frozen

from gpuruntime.meta.conversion.struct_hooks import require_decodable
from gpuruntime.meta.dynamic import DynamicObject, PartialObject
from gpuruntime.meta.identity import ResourceKind
from gpuruntime.meta.objects import KubeObject, TypedObject
from gpuruntime.meta.sharing import decode_sharing_spec

__all__ = ["Form", "as_form", "class_of", "dynamic", "form_of", "metadata_only", "typed"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
K = TypeVar("K", bound=TypedObject)

_JSON: Final = "application/json"
# Without a fallback to whole objects: an API server that does not support these returns 406.
_PARTIAL: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_PARTIAL_LIST: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


class Form(Protocol[T_co]):
    """The media types to request, and how to decode an object. Forms are hashable; forms that do the same are equal.

    `accept` is for one object and for a watch, `list_accept` for a list: a server returns 406 for the wrong one of the
    two, and for a header that names both.
    """

    @property
    def kind(self) -> ResourceKind: ...

    @property
    def accept(self) -> str: ...

    @property
    def list_accept(self) -> str: ...

    def decode(self, raw: dict[str, Any]) -> T_co:
        """Decode an object. Items of a list may come without apiVersion and kind.

        Raises:
            DecodeError: the JSON does not fit the form.
        """

    def __hash__(self) -> int: ...


class _Whole(Form[T_co], Protocol[T_co]):
    @property
    def accept(self) -> str:
        return _JSON

    @property
    def list_accept(self) -> str:
        return _JSON


@frozen
class _Typed(_Whole[K]):
    cls: type[K]

    @property
    def kind(self) -> ResourceKind:
        return self.cls.KIND

    def decode(self, raw: dict[str, Any]) -> K:
        return decode_sharing_spec(self.cls, raw)


@frozen
class _Dynamic(_Whole[DynamicObject]):
    kind: ResourceKind

    def decode(self, raw: dict[str, Any]) -> DynamicObject:
        # An object from a list is equal to the same object by itself.
        return DynamicObject.decode(self.kind, {"apiVersion": self.kind.api_version, "kind": self.kind.kind, **raw})


@frozen
class _MetadataOnly(Form[PartialObject]):
    kind: ResourceKind

    @property
    def accept(self) -> str:
        return _PARTIAL

    @property
    def list_accept(self) -> str:
        return _PARTIAL_LIST

    def decode(self, raw: dict[str, Any]) -> PartialObject:
        return PartialObject.decode(self.kind, raw)


def typed(cls: type[K]) -> Form[K]:
    """Objects of a typed kind."""
    return _Typed(cls)


def dynamic(kind: ResourceKind) -> Form[DynamicObject]:
    """Objects of any kind, whole, as frozen JSON."""
    return _Dynamic(kind)


def metadata_only(kind: ResourceKind) -> Form[PartialObject]:
    """The metadata of objects of any kind; the server does not send the rest.

    Caveats: RBAC does not know the difference. An informer of the metadata of Secrets needs the permissions to list and
    watch Secrets, which include reading their data.
    """
    return _MetadataOnly(kind)


def as_form(form: type[T] | Form[T]) -> Form[T]:
    """The form itself, or the form of a typed kind.

    Raises:
        TypeError: the class is not a typed kind, or cannot be decoded; or an object was passed instead of its class.
    """
    if not isinstance(form, type):
        if not hasattr(form, "decode"):
            name = type(form).__qualname__
            raise TypeError(f"expected a Form or a subclass of TypedObject, got an object: pass the class, {name}")
        return form
    if not issubclass(form, TypedObject) or not hasattr(form, "KIND"):
        raise TypeError(f"expected a Form or a subclass of TypedObject with a KIND, got {form.__qualname__}")
    require_decodable(form)  # type: ignore[arg-type]  # mypy looks for the hash of an instance, not of the class
    return cast("Form[T]", _Typed(form))


def class_of(form: Form[Any]) -> type[TypedObject] | None:
    """The class of a typed form; None if the form has none."""
    return form.cls if isinstance(form, _Typed) else None


def form_of(obj: KubeObject) -> Form[Any]:
    """The form that an object is in.

    Raises:
        TypeError: the object is neither typed nor dynamic nor partial.
    """
    match obj:
        case TypedObject():
            return _Typed(type(obj))
        case DynamicObject():
            return _Dynamic(obj.kind)
        case PartialObject():
            return _MetadataOnly(obj.kind)
    raise TypeError(f"expected a typed, dynamic or partial object, got {type(obj).__qualname__}")
