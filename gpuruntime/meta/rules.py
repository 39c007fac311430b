"""What a type says about its values beyond their shape, and about its kind: the vocabulary of generated definitions.

Rules of a field stand in `Annotated`, rules of an object in `RULES`, and what `kubectl` shows of a kind in
`DEFINITION`::

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

Decoding does not look at rules: an object that was stored before a rule existed can still be read.
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
    """The least and the greatest value of a number, both allowed."""

    minimum: int | float | None = None
    maximum: int | float | None = field(default=None, validator=_not_below_minimum)


@frozen
class Length:
    """How many characters (Unicode code points, not bytes) a string has."""

    minimum: int | None = None
    maximum: int | None = field(default=None, validator=_not_below_minimum)


@frozen
class Items:
    """How many items a list has. An absent list is not checked: a list without default must be there."""

    minimum: int | None = None
    maximum: int | None = field(default=None, validator=_not_below_minimum)


@frozen
class Properties:
    """How many entries a map has. An absent map is not checked."""

    minimum: int | None = None
    maximum: int | None = field(default=None, validator=_not_below_minimum)


@frozen
class Pattern:
    """A regular expression that is found in the string; write ^ and $ for the whole of it.

    The API server reads it as RE2. It must mean the same to Python: no look-around, back-reference, possessive
    quantifier or Unicode class.
    """

    regex: str = field(validator=validators.min_len(1))


@frozen
class Format:
    """A named format of strings, such as "date-time". The API server ignores one that it does not know."""

    name: str = field(validator=validators.min_len(1))


@frozen
class QuantityRule:
    """An amount such as "100m" or "1.5Gi": what `gpuruntime.meta.parse_quantity` accepts, and nothing else.

    The type decides about whole numbers without quotes: `Annotated[str | int, QuantityRule()]` takes both, like the
    resources of a container (int-or-string); `Annotated[str, QuantityRule()]` takes texts only. Values are stored as
    they came.
    """

    positive: bool = False


@frozen
class SetOf:
    """A list of scalars without duplicates; appliers own single items."""


@frozen(init=False)
class MapOf:
    """A list of objects, no two of which agree in all of these keys (wire names); appliers own single items.

    A key is a scalar, and either required or with a default.
    """

    keys: tuple[str, ...] = field(validator=validators.min_len(1))

    def __init__(self, *keys: str) -> None:
        self.__attrs_init__(keys)


@frozen
class Atomic:
    """A list, map or object that is replaced as a whole: one applier owns all of it."""


@frozen
class Immutable:
    """A field that an update can neither change, nor set, nor unset.

    Caveats: it says nothing once the object around the field is gone. Inside an optional object, a list or a map, make
    the outermost optional field immutable.
    """


@frozen
class Cel:
    """A rule in the Common Expression Language, evaluated by the API server with `self` as the value.

    A rule that names `oldSelf` is checked on updates only, unless `optional_old_self` is set. `field_path` is relative
    to the value (".ports"), and only names where the error is reported.
    """

    rule: str = field(validator=validators.min_len(1))
    message: str | None = None
    message_expression: str | None = None
    reason: CelReason | None = None
    field_path: str | None = None
    optional_old_self: bool | None = None


@frozen
class Required:
    """A field that the API server insists on although Python objects may lack it: whoever writes one fills it in.

    Its Python default is not the server's. A field without Python default is required already.
    """


@frozen
class Default:
    """The default that the API server fills in, for a field whose Python default is None, empty or missing.

    Every other Python default is the server's default already.
    """

    value: Any = field(converter=freeze)


@frozen
class Embedded:
    """A whole Kubernetes object inside another: apiVersion, kind and metadata are there and checked."""


@frozen
class PreserveUnknown:
    """The API server keeps fields of this object that the type does not know, instead of dropping them."""


@frozen
class Column:
    """A column of `kubectl get`: its heading, and the path of the value. Above priority 0 only with `-o wide`."""

    name: str
    json_path: str = field(validator=validators.matches_re(r"[.\[].*"))
    type: ColumnType = "string"
    priority: int = 0
    description: str = ""
    format: str | None = None


@frozen
class Scale:
    """Where `kubectl scale` and autoscalers find the replicas of an object."""

    spec_replicas: str
    status_replicas: str
    label_selector: str | None = None


@frozen
class Definition:
    """What a CustomResourceDefinition says about a kind besides its schema.

    `singular` and `list_kind` follow from the kind's name. Of the versions of one kind exactly one is the storage.
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
