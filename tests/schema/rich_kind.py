"""A kind that uses every type and every rule there is."""

from enum import Enum
from typing import Annotated, Any, ClassVar, Literal

from attrs import field, frozen

from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.kube.builtin.pods import PodTemplateSpec, Toleration
from gpuruntime.meta import (
    EMPTY,
    Atomic,
    Cel,
    Check,
    Column,
    Condition,
    Default,
    Definition,
    Embedded,
    Format,
    FrozenDict,
    Immutable,
    Items,
    Length,
    MapOf,
    Pattern,
    PreserveUnknown,
    Properties,
    QuantityRule,
    Range,
    ResourceKind,
    Rule,
    Scale,
    SetOf,
    Struct,
    TypedObject,
    wire,
)


class Mode(Enum):
    FAST = "Fast"
    SAFE = "Safe"


@frozen
class Port(Struct):
    """A door of the widget."""

    number: Annotated[int, Range(minimum=1, maximum=65535)]
    """Where to knock."""
    name: Annotated[str, Length(minimum=1, maximum=15), Pattern("^[a-z]([-a-z0-9]*[a-z0-9])?$")]
    """What others call it."""
    protocol: Literal["TCP", "UDP"] = "TCP"
    """How to knock."""


@frozen
class Window(Struct):
    """When the widget may be touched."""

    open: Annotated[str, Format("date-time")] | None = None
    grace: Annotated[int, Range(minimum=0)] = 30
    owner: Annotated[str, Length(maximum=20), Immutable()] | None = None


@frozen
class Loose(Struct):
    """Knows one field, keeps all."""

    known: int | None = None


@frozen
class WidgetSpec(Struct):
    """What the widget shall be.

    A widget is
    made once.
    """

    RULES: ClassVar[tuple[Rule, ...]] = (
        Cel(
            "self.low <= self.high",
            message="low must not exceed high",
            field_path=".low",
            check=lambda spec: spec.low <= spec.high,
            expected=lambda spec: f"at most high, which is {spec.high}",
        ),
        Check(lambda spec: spec.name not in spec.tags, expected="tags other than the name", field_path=".tags"),
    )

    size: Annotated[int, Range(minimum=1, maximum=8), Immutable()]
    """How big it is.

    It cannot
    change.
    """
    name: Annotated[str, Length(minimum=1, maximum=10)]
    low: int = 0
    high: int = 10
    ratio: Annotated[float, Range(minimum=0.0, maximum=1.0)] = 0.5
    paused: bool = False
    mode: Mode = Mode.SAFE
    level: Literal[1, 2, 3] | None = None
    color: Annotated[str | None, Length(maximum=8), Immutable()] = None
    cpu: Annotated[str | int, QuantityRule()] = "500m"
    memory: Annotated[str, QuantityRule(positive=True)] | None = None
    storage: Annotated[str | int, QuantityRule(positive=True)] | None = None
    percentage: Annotated[int | str, Pattern("^[0-9]{1,2}%$")] | None = None
    code: Annotated[str, Pattern(r"^[\w.-]+\s?$"), Length(maximum=12)] | None = None
    since: Annotated[str, Format("date")] | None = None
    token: Annotated[str, Format("byte")] | None = field(default=None, metadata=wire(sensitive=True))
    identity: Annotated[str, Format("uuid")] | None = None
    tags: Annotated[tuple[Annotated[str, Length(maximum=6)], ...], SetOf(), Items(maximum=4)] = ()
    ports: Annotated[tuple[Port, ...], MapOf("number", "protocol"), Items(maximum=4)] = ()
    words: Annotated[tuple[str, ...], Atomic(), Items(minimum=1, maximum=3)] | None = None
    matrix: tuple[tuple[int, ...], ...] = ()
    limits: Annotated[FrozenDict[str, Annotated[int, Range(minimum=0)]], Properties(maximum=3)] = EMPTY
    windows: Annotated[FrozenDict[str, Window], Properties(maximum=4)] = EMPTY
    window: Window = field(default=Window())
    fixed: Annotated[Loose, Atomic()] | None = None
    loose: Annotated[Loose, PreserveUnknown()] | None = None
    anything: Any = None
    options: FrozenDict[str, Any] = EMPTY
    tolerations: tuple[Toleration, ...] = ()
    template: PodTemplateSpec | None = None
    backup: ConfigMap | None = None
    raw: Annotated[FrozenDict[str, Any], Embedded()] | None = None
    replicas: Annotated[int, Range(minimum=0, maximum=100), Default(1)] | None = None
    namespace: Annotated[str, Immutable(), Length(maximum=8)] | None = None


@frozen
class WidgetStatus(Struct):
    """What the widget is."""

    replicas: Annotated[int, Range(minimum=0, maximum=100)] = 0
    conditions: Annotated[tuple[Condition, ...], MapOf("type")] = ()


@frozen
class Widget(TypedObject):
    """A thing of many parts."""

    KIND = ResourceKind("definitions.example.org", "v1", "Widget", "widgets", namespaced=True)
    DEFINITION: ClassVar = Definition(
        short_names=("wd",),
        categories=("tests",),
        columns=(
            Column("Size", ".spec.size", type="integer", description="How big it is"),
            Column("Mode", ".spec.mode", priority=1),
        ),
        scale=Scale(".spec.replicas", ".status.replicas"),
    )

    spec: WidgetSpec
    status: WidgetStatus = field(default=WidgetStatus())
