"""Validation rules of types, and the settings of generated CustomResourceDefinitions.

Rules of a field are in `Annotated`, rules of an object in `RULES`, names and columns of a kind in `DEFINITION`::

    @frozen
    class WidgetSpec(Struct):
        RULES: ClassVar[tuple[Rule, ...]] = (
            Cel("self.low <= self.high", check=lambda spec: spec.low <= spec.high, expected="low not above high"),
        )

        size: Annotated[int, Range(minimum=1, maximum=8), Immutable()]
        low: int = 0
        high: int = 10
        ports: Annotated[tuple[Port, ...], MapOf("name"), Items(maximum=16)] = ()


    @frozen
    class Widget(TypedObject):
        KIND = ResourceKind("example.org", "v1", "Widget", "widgets", namespaced=True)
        DEFINITION: ClassVar = Definition(columns=(Column("Size", ".spec.size", type="integer"),))
        spec: WidgetSpec

The API server enforces all rules but `Check`, `Keys` and the bounds of a `QuantityRule`, which a definition cannot
express. `gpuruntime.schema.violations` evaluates all rules in Python, except a `Cel` without `check`, and `Immutable`.

Decoding ignores rules, so that an object which was stored before a rule existed can still be read.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import Any, Final, Literal

from attrs import Attribute, field, frozen, validators

from gpuruntime.meta.frozen_mapping import freeze
from gpuruntime.meta.quantities import QuantityError, parse_quantity

__all__ = [
    "Atomic",
    "Cel",
    "Check",
    "Column",
    "Default",
    "Definition",
    "Embedded",
    "Format",
    "Immutable",
    "Items",
    "Keys",
    "Length",
    "MapOf",
    "Pattern",
    "PreserveUnknown",
    "Properties",
    "QuantityRule",
    "Range",
    "Required",
    "Rule",
    "Scale",
    "SetOf",
]

CelReason = Literal["FieldValueRequired", "FieldValueForbidden", "FieldValueInvalid", "FieldValueDuplicate"]
ColumnType = Literal["string", "integer", "number", "boolean", "date"]
Predicate = Callable[[Any], bool]
Expected = str | Callable[[Any], str]

# The child steps that the API server accepts in `fieldPath`, without the indexes of lists.
_FIELD_PATH: Final = re.compile(r"(\.[A-Za-z_]\w*|\['[^']+'\])+")


def _not_below_minimum(bounds: Any, _attribute: "Attribute[Any]", maximum: float | None) -> None:
    name = type(bounds).__name__
    if bounds.minimum is None and maximum is None:
        raise ValueError(f"{name} has neither minimum nor maximum; give at least one")
    if bounds.minimum is not None and maximum is not None and maximum < bounds.minimum:
        raise ValueError(f"{name} has maximum {maximum}, expected at least its minimum {bounds.minimum}")


@cache
def _bound(text: str) -> int:
    return parse_quantity(text).nanos


def _is_quantity(_rule: Any, _attribute: "Attribute[Any]", value: str) -> None:
    _bound(value)


def _is_field_path(_rule: Any, _attribute: "Attribute[Any]", path: str) -> None:
    if not _FIELD_PATH.fullmatch(path):
        raise ValueError(f"expected a field path such as .ports or .labels['app'], got {path!r}")


def _sees_no_old_self(cel: "Cel", _attribute: "Attribute[Any]", check: Predicate | None) -> None:
    if check is not None and "oldSelf" in cel.rule:
        raise ValueError(f"rule {cel.rule!r} compares with oldSelf, which a check cannot see; drop the check")


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
    quantifier or Unicode class. Violations show `description` instead of the expression, such as "lower-case letters
    and digits"; the choices of an expression like ^(TCP|UDP)$ need none.
    """

    regex: str = field(validator=validators.min_len(1))
    description: str | None = None


@frozen
class Format:
    """A named string format, such as "date-time". The API server ignores unknown formats."""

    name: str = field(validator=validators.min_len(1))


@frozen
class QuantityRule:
    """A quantity such as "100m" or "1.5Gi": exactly what `gpuruntime.meta.parse_quantity` accepts.

    The type decides about unquoted integers: `Annotated[str | int, QuantityRule()]` is int-or-string, like the
    resources of a container; `Annotated[str, QuantityRule()]` accepts strings only. Values are stored unchanged.

    `minimum` and `maximum` are quantities, both inclusive. The API server does not check them: a comparison of
    quantities in CEL exceeds its cost limit. `example` is shown in violations.
    """

    positive: bool = False
    minimum: str | None = field(default=None, validator=validators.optional(_is_quantity))
    maximum: str | None = field(default=None, validator=validators.optional(_is_quantity))
    example: str = "100m, 1.5Gi or 2e3"

    def check(self, value: str | int) -> bool:
        """Whether the value is a quantity within the bounds."""
        try:
            amount = parse_quantity(value).nanos
        except QuantityError:
            return False
        return (self.minimum is None or _bound(self.minimum) <= amount) and (
            self.maximum is None or amount <= _bound(self.maximum)
        )

    @property
    def expected(self) -> str:
        """What a violation shows as expected, such as "a quantity from 1Mi to 1Pi such as 16Gi"."""
        least = "" if self.minimum is None else f" from {self.minimum}"
        most = "" if self.maximum is None else f" {'to' if least else 'up to'} {self.maximum}"
        return f"a {'positive ' * (self.positive and not least)}quantity{least}{most} such as {self.example}"


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

    `check` is the same rule in Python, for `gpuruntime.schema.violations`: a function of the decoded value that returns
    whether it is valid. `expected` continues the sentence "expected ..."; it may be a function of the value too. Keep
    the two forms equal by a test that compares `violations` with a real API server.
    """

    rule: str = field(validator=validators.min_len(1))
    message: str | None = None
    message_expression: str | None = None
    reason: CelReason | None = None
    field_path: str | None = field(default=None, validator=validators.optional(_is_field_path))
    optional_old_self: bool | None = None
    check: Predicate | None = field(default=None, kw_only=True, validator=_sees_no_old_self)
    expected: Expected | None = field(default=None, kw_only=True)


@frozen
class Check:
    """A validation rule in Python only, for what a definition cannot express; the API server does not know it.

    `check` is a function of the decoded value that returns whether it is valid. `expected` continues the sentence
    "expected ..."; it may be a function of the value too. `field_path` is as in `Cel`.
    """

    check: Predicate
    expected: Expected = field(kw_only=True)
    field_path: str | None = field(default=None, kw_only=True, validator=validators.optional(_is_field_path))


@frozen(init=False)
class Keys:
    """Checks of each key of a map, in Python only. Rules of the values go inside: `FrozenDict[str, Annotated[...]]`."""

    checks: tuple[Check, ...] = field(validator=validators.min_len(1))

    def __init__(self, *checks: Check) -> None:
        self.__attrs_init__(checks)


Rule = Cel | Check
"""A rule of an object, as in `RULES` of a Struct."""


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
