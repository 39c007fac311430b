"""StockPool: a warm pool that keeps a number of stock units of one spec ready to be claimed."""

from typing import Annotated, ClassVar

from attrs import evolve, field, frozen

from gpuruntime.api.envelope import SharedSpec
from gpuruntime.api.names import GROUP, VERSION
from gpuruntime.api.ready_columns import READY_REASON
from gpuruntime.meta import (
    Column,
    Condition,
    Definition,
    Format,
    MapOf,
    Range,
    ResourceKind,
    Scale,
    Struct,
    TypedObject,
)

__all__ = ["StockPool", "StockPoolSpec", "StockPoolStatus"]


@frozen
class StockPoolSpec(SharedSpec):
    """Desired state of the pool: the number of stock units, and their spec.

    Image and template are what the stock units run while they wait to be claimed: for instance an image that should be
    pulled before it is needed. By default they sleep. They have no Service. A change of any field but replicas replaces
    the stock units one by one. Units that were claimed are not changed.
    """

    replicas: Annotated[int, Range(minimum=0, maximum=10000)] = field(kw_only=True)
    """Number of ready, unclaimed stock units to keep. 0 keeps none."""


@frozen
class StockPoolStatus(Struct):
    """Observed state of the pool, written by the operator only. The Ready condition shows whether the pool is full, and
    if not, why.
    """

    available: Annotated[int, Range(minimum=0, maximum=2**31 - 1)] | None = None
    """Number of stock units that are ready and not claimed."""
    allocated: int | None = None
    """Number of active units that use capacity from this pool."""
    phase: str | None = None
    """Summary of the Ready condition: Ready, Progressing, Empty (scaled to zero) or Failed."""
    observed_generation: int | None = None
    """Most recent generation of the spec that the operator has applied to the stock."""
    last_sync_time: Annotated[str | None, Format("date-time")] = None
    """Time of the last status change. The status of an unchanged pool is not written, so this may be long ago."""
    failures: int | None = None
    """Number of consecutive failures: stock units that failed since the last one that stayed ready or was claimed."""
    last_failure_time: Annotated[str | None, Format("date-time")] = None
    """Time of the last failure. The more consecutive failures there are, the longer the pool waits before a retry."""
    replaced: int | None = None
    """Number of failed stock units among these failures that were replaced."""
    replaced_serial: int | None = None
    """Highest serial number of the replaced stock units."""
    last_serial: int | None = None
    """Highest serial number of a stock unit of this pool. Names are not reused."""
    conditions: Annotated[tuple[Condition, ...], MapOf("type")] = ()
    """Conditions of the pool. Ready is True while there are as many ready units as replicas; otherwise its reason and
    message explain why not."""


@frozen
class StockPool(TypedObject):
    """StockPool is a warm pool: it keeps a number of stock units of one spec ready, and refills after a claim.

    It is created in a stock namespace (runtime-stock) and owns GPUUnits there. Deleting it deletes its stock, but no
    units that were claimed.
    """

    KIND = ResourceKind(GROUP, VERSION, "StockPool", "stockpools", namespaced=True)
    DEFINITION: ClassVar[Definition] = Definition(
        short_names=("sp",),
        categories=("gpuruntime",),
        columns=(
            Column("Spec", ".spec.specName", description="Flavour of the stock"),
            Column("Desired", ".spec.replicas", type="integer", description="Ready units to keep"),
            Column("Available", ".status.available", type="integer", description="Ready, unclaimed units"),
            Column("Allocated", ".status.allocated", type="integer", description="Active units from this pool"),
            Column("Phase", ".status.phase", description="Ready, Progressing, Empty or Failed"),
            Column("Age", ".metadata.creationTimestamp", type="date"),
            Column("GPU", ".spec.gpu", type="integer", priority=1, description="Number of GPUs of each unit"),
            evolve(READY_REASON, priority=1),
        ),
        scale=Scale(".spec.replicas", ".status.available"),
    )

    spec: StockPoolSpec
    status: StockPoolStatus = field(default=StockPoolStatus())
