"""`Struct`, the base of all wire types: field names, unknown fields, sensitive fields, a short repr.

A wire type is a frozen attrs class derived from `Struct`::

    @frozen
    class WidgetSpec(Struct):
        replicas: int | None = None
        cluster_ip: str | None = field(default=None, metadata=wire("clusterIP"))

Python names are snake_case, wire names camelCase; a trailing underscore keeps clear of keywords (`from_` is "from").
Allowed field types: str, int, float, bool, Literal, Enum, `Any` (any JSON, deeply frozen), another Struct,
`tuple[X, ...]`, `FrozenDict[str, X]`, `X | None`, and unions of str, int, float and bool; each of them may be
`Annotated` with rules of `gpuruntime.meta.rules`.
"""

from inspect import get_annotations
from typing import Any, Final

from attrs import NOTHING, Attribute, Factory, field, fields, frozen

from gpuruntime.meta.frozen_mapping import EMPTY, FrozenDict

__all__ = ["MASK", "Struct", "default_of", "forgotten_field", "is_sensitive", "wire", "wire_name"]

MASK: Final = "***"
"""Shown in place of a value that may be secret."""
_NAME: Final = "gpuruntime.wire_name"
_SENSITIVE: Final = "gpuruntime.sensitive"


def wire(name: str | None = None, *, sensitive: bool = False) -> dict[str, Any]:
    """Field metadata: the wire name if it is not the camelCase form, and whether values may be secret.

    Decode errors and reprs never show the value of a sensitive field.
    """
    return {_NAME: name, _SENSITIVE: sensitive}


def wire_name(attribute: "Attribute[Any]") -> str:
    """The JSON key of an attrs attribute."""
    override: str | None = attribute.metadata.get(_NAME)
    if override is not None:
        return override
    head, *tail = attribute.name.rstrip("_").split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in tail)


def is_sensitive(attribute: "Attribute[Any]") -> bool:
    return bool(attribute.metadata.get(_SENSITIVE, False))


def default_of(attribute: "Attribute[Any]") -> Any:
    """The default value of a field, or `attrs.NOTHING` if it is required."""
    default: Any = attribute.default
    # attrs declares Factory, a class, as a function to type checkers.
    return default.factory() if isinstance(default, Factory) else default  # type: ignore[arg-type]  # see above


@frozen(repr=False)
class Struct:
    """The base of every type that is a JSON object on the wire.

    Guarantees: decoding and encoding preserve the JSON, except for the order of keys. `extra` holds, by wire name, the
    unknown fields, and known fields that were present with their default value (null, an empty list), so that they are
    written again. Any other field that equals its default is omitted.

    Caveats: `extra` is part of equality: an explicit null and an absent field are different. Declare a default only if
    the server treats the absent field the same way, because the default is never written.
    """

    extra: FrozenDict[str, Any] = field(default=EMPTY, kw_only=True)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # attrs generates a repr with all fields unless the class body defines one.
        if "__repr__" not in cls.__dict__:
            cls.__repr__ = Struct.__repr__  # type: ignore[method-assign]  # see above

    def __repr__(self) -> str:
        shown = []
        for attribute in sorted(fields(type(self)), key=lambda attribute: attribute.name == "extra"):
            value, default = getattr(self, attribute.name), default_of(attribute)
            if attribute.repr and (default is NOTHING or value != default):
                shown.append(f"{attribute.name}={MASK if is_sensitive(attribute) else repr(value)}")
        return f"{type(self).__qualname__}({', '.join(shown)})"


def forgotten_field(cls: type[Struct]) -> str | None:
    """A field that attrs does not know because its class was not decorated, as "Class.field"; None if there is none."""
    known = {attribute.name for attribute in fields(cls)}
    for base in cls.__mro__:
        if base is Struct:
            return None
        for name, annotation in get_annotations(base).items():
            is_class_variable = "ClassVar" in str(annotation) or (name in vars(base) and name.isupper())
            if name not in known and not is_class_variable:
                return f"{base.__qualname__}.{name}"
    return None
