"""StockPool: keeps a number of ready stock units of one spec, so that a claim finds one."""

from typing import Annotated, ClassVar

from attrs import field, frozen

from gpuruntime.api.envelope import GPU_TYPE_RULE, Amount, GpuCount, GpuType, Image, SpecName
from gpuruntime.api.names import GROUP, VERSION
from gpuruntime.api.placement import PullSecret, UnitToleration
from gpuruntime.api.unit_template import UnitTemplate
from gpuruntime.meta import (
    EMPTY,
    Atomic,
    Cel,
    Column,
    Condition,
    Definition,
    Format,
    FrozenDict,
    Items,
    Length,
    MapOf,
    Properties,
    Range,
    ResourceKind,
    Scale,
    Struct,
    TypedObject,
)

__all__ = ["StockPool", "StockPoolSpec", "StockPoolStatus"]


@frozen
class StockPoolSpec(Struct):
    """How much stock to keep, and what each unit of it is.

    A change of anything but replicas replaces the stock unit by unit; units that were claimed keep what they have.
    """

    RULES: ClassVar[tuple[Cel, ...]] = (GPU_TYPE_RULE,)

    spec_name: SpecName
    """Name of the flavour, such as g1.1: what claims ask for."""
    replicas: Annotated[int, Range(minimum=0, maximum=10000)]
    """How many ready units to keep beside those that were claimed. 0 keeps none."""
    image: Image = None
    """Image of the stock units, to have it on their nodes before it is needed; the operator's small reservation image
    unless given."""
    cpu: Amount = None
    """CPUs of each unit, such as 4 or 500m."""
    memory: Amount = None
    """Memory of each unit, such as 16Gi."""
    gpu: GpuCount = 0
    """GPUs (nvidia.com/gpu) of each unit."""
    gpu_type: GpuType = None
    """Model of the GPUs: the value of label nvidia.com/gpu.product that a node must have."""
    template: UnitTemplate = field(default=UnitTemplate())
    """What runs inside the stock units while they wait; they sleep unless something is given. Their ports are not
    reachable through a Service."""
    image_pull_secrets: Annotated[tuple[PullSecret, ...], MapOf("name"), Items(maximum=16)] = ()
    """Secrets with the credentials for the image's registry."""
    tolerations: Annotated[tuple[UnitToleration, ...], Atomic(), Items(maximum=32)] = ()
    """Taints of nodes that the units accept. Units with GPUs accept nvidia.com/gpu by themselves."""
    node_selector: Annotated[FrozenDict[str, str], Properties(maximum=32)] = EMPTY
    """Labels that a node must have."""
    runtime_class_name: Annotated[str | None, Length(minimum=1, maximum=253)] = None
    """RuntimeClass that runs the units; the default of the node unless given."""


@frozen
class StockPoolStatus(Struct):
    """What the operator found, and nobody else writes. The Ready condition says whether the pool is full, and
    if not, why.
    """

    available: Annotated[int, Range(minimum=0, maximum=2**31 - 1)] | None = None
    """Stock units that are ready and not claimed."""
    allocated: int | None = None
    """Active units that live on capacity of this pool."""
    phase: str | None = None
    """Summary of the Ready condition: Ready, Progressing, Empty (scaled to zero) or Failed."""
    observed_generation: int | None = None
    """The generation of the spec that the stock was last brought in line with."""
    last_sync_time: Annotated[str | None, Format("date-time")] = None
    """When the status last changed. An unchanged pool is not written again, so this may be long ago."""
    failures: int | None = None
    """Stock units that failed one after another since the last one became ready."""
    last_failure_time: Annotated[str | None, Format("date-time")] = None
    """When the last of them failed. The more there are, the longer the pool waits before it tries again."""
    replaced: int | None = None
    """How many of them are gone, because another unit was tried in their place."""
    replaced_serial: int | None = None
    """The highest number of those."""
    last_serial: int | None = None
    """The highest number that a stock unit of the pool was given; no name is used twice."""
    conditions: Annotated[tuple[Condition, ...], MapOf("type")] = ()
    """Ready: true when there are as many ready units as replicas asks for. Its reason and message say why not."""


@frozen
class StockPool(TypedObject):
    """A warm pool: keeps a number of ready stock units of one spec, and makes new ones after a claim.

    It lives in a stock namespace (runtime-stock) and owns GPUUnits there. Deleting it deletes its stock, but not what
    was claimed.
    """

    KIND = ResourceKind(GROUP, VERSION, "StockPool", "stockpools", namespaced=True)
    DEFINITION: ClassVar[Definition] = Definition(
        short_names=("sp",),
        categories=("gpuruntime",),
        columns=(
            Column("Spec", ".spec.specName", description="Flavour of the stock"),
            Column("Desired", ".spec.replicas", type="integer", description="Ready units to keep"),
            Column("Available", ".status.available", type="integer", description="Ready units that can be claimed"),
            Column("Allocated", ".status.allocated", type="integer", description="Active units from this pool"),
            Column("Phase", ".status.phase", description="Ready, Progressing, Empty or Failed"),
            Column("Age", ".metadata.creationTimestamp", type="date"),
            Column("GPU", ".spec.gpu", type="integer", priority=1, description="GPUs of each unit"),
            Column(
                "Reason",
                '.status.conditions[?(@.type=="Ready")].reason',
                priority=1,
                description="Why it is in this phase",
            ),
        ),
        scale=Scale(".spec.replicas", ".status.available"),
    )

    spec: StockPoolSpec
    status: StockPoolStatus = field(default=StockPoolStatus())
