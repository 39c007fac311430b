"""Validation rules of types, and the settings of generated CustomResourceDefinitions.

Rules of a field are in `Annotated`, rules of an object in `RULES`, names and columns of a kind in `DEFINITION`::

    @frozen
    class WidgetSpec(Struct):
        RULES: ClassVar[tuple[Cel, ...]] = (Cel("self.low <= self.high", message="low must not exceed high"),)

        size: Annotated[int, Range(minimum=1, maximum=8), Immutable()]
        low: int = 0
        high: int = 10
        ports: Annotated[tuple[Port, ...], MapOf("name"), Items(maximum=16)] = ()


    @frozen
    class Widget(TypedObject):
        KIND = ResourceKind("example.org", "v1", "Widget", "widgets", namespaced=True)
        DEFINITION: ClassVar = Definition(columns=(Column("Size", ".spec.size", type="integer"),))
        spec: WidgetSpec

Decoding ignores rules, so that an object which was stored before a rule existed can still be read.
"""

from typing import Any, Literal

from attrs import Attribute, field, frozen, validators

from gpuruntime.meta.frozen_mapping import freeze

__all__ = [
    "Atomic",
    "Cel",
    "Column",
    "Default",
    "Definition",
    "Embedded",
    "Format",
    "Immutable",
    "Items",
    "Length",
    "MapOf",
    "Pattern",
    "PreserveUnknown",
    "Properties",
    "QuantityRule",
    "Range",
    "Required",
    "Scale",
    "SetOf",
]

CelReason = Literal["FieldValueRequired", "FieldValueForbidden", "FieldValueInvalid", "FieldValueDuplicate"]
ColumnType = Literal["string", "integer", "number", "boolean", "date"]


def _not_below_minimum(bounds: Any, _attribute: "Attribute[Any]", maximum: float | None) -> None:
    name = type(bounds).__name__
    if bounds.minimum is None and maximum is None:
        raise ValueError(f"{name} has neither minimum nor maximum; give at least one")
    if bounds.minimum is not None and maximum is not None and maximum < bounds.minimum:
        raise ValueError(f"{name} has maximum {maximum}, expected at least its minimum {bounds.minimum}")


@frozen
class Range:
    """The minimum and the maximum of a number, both inclusive."""

    minimum: int | float | None = None
    maximum: int | float | None = field(default=None, validator=_not_below_minimum)


@frozen
class Length:
    """The length of a string in characters (Unicode code points, not bytes)."""

    minimum: int | None = None
    maximum: int | None = field(default=None, validator=_not_below_minimum)


@frozen
class Items:
    """The number of items of a list. An absent list is not checked; a list without a default is required."""

    minimum: int | None = None
    maximum: int | None = field(default=None, validator=_not_below_minimum)


@frozen
class Properties:
    """The number of entries of a map. An absent map is not checked."""

    minimum: int | None = None
    maximum: int | None = field(default=None, validator=_not_below_minimum)


@frozen
class Pattern:
    """A regular expression that must match somewhere in the string; use ^ and $ to match all of it.

    The API server uses RE2. The expression must mean the same in Python: no look-around, backreference, possessive
    quantifier or Unicode class.
    """

    regex: str = field(validator=validators.min_len(1))


@frozen
class Format:
    """A named string format, such as "date-time". The API server ignores unknown formats."""

    name: str = field(validator=validators.min_len(1))


@frozen
class QuantityRule:
    """A quantity such as "100m" or "1.5Gi": exactly what `gpuruntime.meta.parse_quantity` accepts.

    The type decides about unquoted integers: `Annotated[str | int, QuantityRule()]` is int-or-string, like the
    resources of a container; `Annotated[str, QuantityRule()]` accepts strings only. Values are stored unchanged.
    """

    positive: bool = False


@frozen
class SetOf:
    """A list of scalars without duplicates (x-kubernetes-list-type: set); field managers own single items."""


@frozen(init=False)
class MapOf:
    """A list of objects that is a map by these keys (x-kubernetes-list-type: map); field managers own single items.

    Keys are wire names. A key is a scalar that is required or has a default.
    """

    keys: tuple[str, ...] = field(validator=validators.min_len(1))

    def __init__(self, *keys: str) -> None:
        self.__attrs_init__(keys)


@frozen
class Atomic:
    """A list, map or object that is replaced as a whole: one field manager owns all of it."""


@frozen
class Immutable:
    """A field that an update can neither change, nor set, nor unset.

    Caveats: it has no effect if the enclosing object is removed. Inside an optional object, a list or a map, make the
    outermost optional field immutable.
    """


@frozen
class Cel:
    """A validation rule in the Common Expression Language, evaluated by the API server with `self` as the value.

    A rule that refers to `oldSelf` is evaluated on updates only, unless `optional_old_self` is set. `field_path` is
    relative to the value (".ports"), and is the field in the error message.
    """

    rule: str = field(validator=validators.min_len(1))
    message: str | None = None
    message_expression: str | None = None
    reason: CelReason | None = None
    field_path: str | None = None
    optional_old_self: bool | None = None


@frozen
class Required:
    """A field that the API server requires although it has a Python default: set it before writing the object.

    Its Python default is not the server's default. A field without a Python default is required anyway.
    """


@frozen
class Default:
    """The default that the API server sets, for a field whose Python default is None, empty or missing.

    Any other Python default is also the server's default.
    """

    value: Any = field(converter=freeze)


@frozen
class Embedded:
    """A Kubernetes object inside another, with apiVersion, kind and metadata, which are validated."""


@frozen
class PreserveUnknown:
    """The API server keeps unknown fields of this object instead of pruning them."""


@frozen
class Column:
    """A printer column of `kubectl get`: its heading, and the path of its value. Priority 1 and up need `-o wide`."""

    name: str
    json_path: str = field(validator=validators.matches_re(r"[.\[].*"))
    type: ColumnType = "string"
    priority: int = 0
    description: str = ""
    format: str | None = None


@frozen
class Scale:
    """The scale subresource: the paths of the replicas for `kubectl scale` and autoscalers."""

    spec_replicas: str
    status_replicas: str
    label_selector: str | None = None


@frozen
class Definition:
    """The settings of a CustomResourceDefinition besides its schema.

    `singular` and `list_kind` default to forms of the kind's name. Exactly one version of a kind has `storage`.
    """

    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    singular: str | None = None
    list_kind: str | None = None
    scale: Scale | None = None
    served: bool = True
    storage: bool = True
    deprecation: str | None = None
