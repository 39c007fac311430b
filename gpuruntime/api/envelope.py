"""The fields that a unit's spec shares with pools, stock, requests and views, each declared once.

::

    Envelope ──> Reservation ──> SharedSpec ──> GPUUnitSpec, StockPoolSpec
    capacity     + placement     + what runs    + fields of their own

A field that is added here is in the CustomResourceDefinitions, REST bodies and views, and is kept from a pool or a seed
request to stock, to the active unit, and to returned stock: see `projection`. What it does is rendered in `desired`.
"""

from typing import Annotated, ClassVar, Final

from attrs import field, fields, frozen

from gpuruntime.api.placement import PullSecret, UnitToleration
from gpuruntime.api.unit_template import UnitTemplate
from gpuruntime.meta import (
    EMPTY,
    Atomic,
    Cel,
    FrozenDict,
    Items,
    Length,
    MapOf,
    Pattern,
    Properties,
    QuantityRule,
    Range,
    Struct,
    encode,
    wire_name,
)

__all__ = [
    "CPU_BOUNDS",
    "GPU_PRODUCT",
    "GPU_TYPE_RULE",
    "MEMORY_BOUNDS",
    "Amount",
    "Envelope",
    "GpuCount",
    "GpuType",
    "Image",
    "Reservation",
    "SharedSpec",
    "SpecName",
    "reservation_problems",
]

GPU_PRODUCT: Final = "nvidia.com/gpu.product"
"""The node label with the product name of the node's GPUs."""

# Not validated by the CRD: a comparison of quantities exceeds the API server's CEL cost limit.
CPU_BOUNDS: Final = ("1m", "1000000")
"""Minimum and maximum of a unit's CPUs."""
MEMORY_BOUNDS: Final = ("1Mi", "1Pi")
"""Minimum and maximum of a unit's memory: no container starts with less, no machine has more."""

_LABEL_VALUE: Final = Pattern("^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$")

SpecName = Annotated[str, Length(minimum=1, maximum=63), _LABEL_VALUE]
Image = Annotated[str | None, Length(minimum=1, maximum=1024), Pattern("^[!-~]+$")]
Amount = Annotated[int | str | None, QuantityRule(positive=True)]
GpuCount = Annotated[int, Range(minimum=0, maximum=1024)]
GpuType = Annotated[str | None, Length(minimum=1, maximum=63), _LABEL_VALUE]

GPU_TYPE_RULE: Final = Cel(
    f"!has(self.gpuType) || !has(self.nodeSelector) || !('{GPU_PRODUCT}' in self.nodeSelector)"
    f" || self.nodeSelector['{GPU_PRODUCT}'] == self.gpuType",
    message=f"nodeSelector['{GPU_PRODUCT}'] must equal gpuType or be absent",
)
"""The rule of every spec that has both a gpuType and a nodeSelector."""


@frozen
class Envelope(Struct):
    """The capacity of a unit, which never changes: every field that is declared here is immutable in a GPUUnit."""

    spec_name: SpecName
    """Name of the flavour, such as g1.1. Units are claimed from stock of the same specName. Immutable once a unit
    exists."""
    cpu: Amount = None
    """CPU request and limit of a unit, such as 4 or 500m. Immutable once the unit exists."""
    memory: Amount = None
    """Memory request and limit of a unit, such as 16Gi. Up to half of it can be used as /dev/shm. Immutable
    once the unit exists."""
    gpu: GpuCount = 0
    """Number of GPUs (nvidia.com/gpu) of a unit, exclusive to it. Immutable once the unit exists."""
    gpu_type: GpuType = None
    """GPU product, such as NVIDIA-A100-SXM4-80GB: the required value of the node label nvidia.com/gpu.product.
    Immutable once the unit exists."""


@frozen
class Reservation(Envelope):
    """Envelope and placement: what a stock unit hands to the active unit, and gets back when that is deleted."""

    RULES: ClassVar[tuple[Cel, ...]] = (GPU_TYPE_RULE,)

    tolerations: Annotated[tuple[UnitToleration, ...], Atomic(), Items(maximum=32)] = ()
    """Tolerations of a unit's pod. A unit with GPUs also tolerates the taint nvidia.com/gpu."""
    node_selector: Annotated[FrozenDict[str, str], Properties(maximum=32)] = EMPTY
    """Labels that a node must have to run a unit."""
    runtime_class_name: Annotated[str | None, Length(minimum=1, maximum=253)] = None
    """RuntimeClass of a unit's pod, such as nvidia. Defaults to the node's default runtime."""


@frozen
class SharedSpec(Reservation):
    """What the specs of units and pools have in common: a reservation, and what runs on it."""

    image: Image = None
    """Container image. Defaults to the operator's reservation image for stock units, and to its default image, which
    has a shell, for active units."""
    template: UnitTemplate = field(default=UnitTemplate())
    image_pull_secrets: Annotated[tuple[PullSecret, ...], MapOf("name"), Items(maximum=16)] = ()
    """Secrets with the credentials of the image's registry."""


def reservation_problems(claim: Reservation) -> tuple[str, ...]:
    """A problem for each field of a request for stock that only the stock unit may define: all but specName."""
    given = encode(claim)
    names = (wire_name(attribute) for attribute in fields(Reservation) if attribute.name not in {"extra", "spec_name"})
    return tuple(
        f"{name}: expected none without coldStart, the stock unit defines it"
        for name in names
        if given.get(name) is not None
    )
