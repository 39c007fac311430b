"""The fields that a unit's spec shares with pools, stock, requests and views, each declared once.

::

    Envelope ──> Reservation ──> SharedSpec ──> GPUUnitSpec, StockPoolSpec
    capacity     + placement     + what runs    + fields of their own

A field that is added here is in the CustomResourceDefinitions, REST bodies and views, and is kept from a pool or a seed
request to stock, to the active unit, and to returned stock: see `projection`. What it does is rendered in `desired`.
"""

from typing import Annotated, ClassVar, Final

import orjson
from attrs import field, frozen

from gpuruntime.api.placement import NodeSelector, PullSecret, UnitToleration
from gpuruntime.api.unit_template import UnitTemplate
from gpuruntime.meta import (
    EMPTY,
    OBJECT_NAME,
    Atomic,
    Cel,
    Check,
    Items,
    Length,
    MapOf,
    Pattern,
    QuantityRule,
    Range,
    Rule,
    Struct,
    known_fields,
)

__all__ = [
    "GPU_PRODUCT",
    "IMAGE_LENGTH",
    "IMAGE_PATTERN",
    "SPEC_LIMIT",
    "Cpu",
    "Envelope",
    "GpuCount",
    "GpuType",
    "Image",
    "Memory",
    "Reservation",
    "SharedSpec",
    "SpecName",
]

SPEC_LIMIT: Final = 96 * 1024
"""Maximum size of a spec in bytes of JSON. Its pod template is stored in an annotation, and annotations are limited to
256 KiB per object."""

GPU_PRODUCT: Final = "nvidia.com/gpu.product"
"""The node label with the product name of the node's GPUs."""

IMAGE_LENGTH: Final = Length(minimum=1, maximum=1024)
IMAGE_PATTERN: Final = Pattern("^[!-~]+$", description="an image without spaces")
_LABEL_VALUE: Final = Pattern(
    "^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
    description="letters, digits, '-', '_' and '.', with a letter or digit first and last",
)

SpecName = Annotated[str, Length(minimum=1, maximum=63), _LABEL_VALUE]
Image = Annotated[str | None, IMAGE_LENGTH, IMAGE_PATTERN]
Cpu = Annotated[int | str | None, QuantityRule(positive=True, minimum="1m", maximum="1000000", example="500m or 4")]
# No container starts with less memory, and no machine has more.
Memory = Annotated[int | str | None, QuantityRule(positive=True, minimum="1Mi", maximum="1Pi", example="16Gi")]
GpuCount = Annotated[int, Range(minimum=0, maximum=1024)]
GpuType = Annotated[str | None, Length(minimum=1, maximum=63), _LABEL_VALUE]

_GPU_TYPE_RULE: Final = Cel(
    f"!has(self.gpuType) || !has(self.nodeSelector) || !('{GPU_PRODUCT}' in self.nodeSelector)"
    f" || self.nodeSelector['{GPU_PRODUCT}'] == self.gpuType",
    message=f"nodeSelector['{GPU_PRODUCT}'] must equal gpuType or be absent",
    field_path=f".nodeSelector['{GPU_PRODUCT}']",
    check=lambda spec: spec.gpu_type is None or spec.node_selector.get(GPU_PRODUCT, spec.gpu_type) == spec.gpu_type,
    expected=lambda spec: f"{spec.gpu_type} as in gpuType, or none",
)


def _size(spec: Struct) -> int:
    return len(orjson.dumps(known_fields(spec)))


_SIZE_RULE: Final = Check(
    lambda spec: _size(spec) <= SPEC_LIMIT,
    expected=lambda spec: (
        f"at most {SPEC_LIMIT} bytes of JSON, not {_size(spec)}; move long texts to a ConfigMap or the image"
    ),
)


@frozen
class Envelope(Struct):
    """The capacity of a unit, which never changes: every field that is declared here is immutable in a GPUUnit."""

    spec_name: SpecName
    """Name of the flavour, such as g1.1. Units are claimed from stock of the same specName. Immutable once a unit
    exists."""
    cpu: Cpu = None
    """CPU request and limit of a unit, such as 4 or 500m. Immutable once the unit exists."""
    memory: Memory = None
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

    RULES: ClassVar[tuple[Rule, ...]] = (_GPU_TYPE_RULE,)

    tolerations: Annotated[tuple[UnitToleration, ...], Atomic(), Items(maximum=32)] = ()
    """Tolerations of a unit's pod. A unit with GPUs also tolerates the taint nvidia.com/gpu."""
    node_selector: NodeSelector = EMPTY
    """Labels that a node must have to run a unit."""
    runtime_class_name: Annotated[str | None, Length(minimum=1, maximum=253), OBJECT_NAME] = None
    """RuntimeClass of a unit's pod, such as nvidia. Defaults to the node's default runtime."""


@frozen
class SharedSpec(Reservation):
    """What the specs of units and pools have in common: a reservation, and what runs on it."""

    RULES: ClassVar[tuple[Rule, ...]] = (*Reservation.RULES, _SIZE_RULE)

    image: Image = None
    """Container image. Defaults to the operator's reservation image for stock units, and to its default image, which
    has a shell, for active units."""
    template: UnitTemplate = field(default=UnitTemplate())
    image_pull_secrets: Annotated[tuple[PullSecret, ...], MapOf("name"), Items(maximum=16)] = ()
    """Secrets with the credentials of the image's registry."""
    min_ready_seconds: Annotated[int | None, Range(minimum=0, maximum=3600)] = None
    """Seconds for which a unit's pod has to stay ready before the unit is Ready. Defaults to 0 with a readiness probe,
    and to 3 without one, unless the operator is configured otherwise. A container that restarted has to stay up for
    longer. A change restarts nothing."""
