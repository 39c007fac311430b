"""Pools and stock units in any state, for tests of pool plans."""

from datetime import UTC, datetime
from typing import Any

from attrs import evolve

from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec, GPUUnitStatus, UnitStages
from gpuruntime.api.reasons import (
    FAILED,
    IMAGE_PULL_FAILED,
    PROGRESSING,
    READY,
    READY_CONDITION,
    STOCK_NOT_READY,
    STOCK_READY,
    UNIT_PROGRESSING,
    UNSCHEDULABLE,
)
from gpuruntime.api.stockpool import StockPool, StockPoolSpec, StockPoolStatus
from gpuruntime.desired.pools.units import POOL_REVISION, stock_unit, unit_name
from gpuruntime.desired.provenance import Claim, Provenance
from gpuruntime.meta import Condition, FrozenDict, ObjectKey, ObjectMeta

__all__ = ["NOW", "STATES", "active", "claimed", "in_state", "pool", "stock"]

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
STATES = ("ready", "starting", "failed", "unschedulable")
_STATUS = {
    "ready": (READY, STOCK_READY, "True", "ready to be claimed"),
    "starting": (PROGRESSING, STOCK_NOT_READY, "False", "rolling out"),
    "failed": (FAILED, IMAGE_PULL_FAILED, "False", "no such image"),
    "unschedulable": (PROGRESSING, UNSCHEDULABLE, "False", "0/4 nodes are available"),
}


def pool(replicas: int, *, status: StockPoolStatus | None = None, **spec: Any) -> StockPool:
    """A pool as it was read."""
    metadata = ObjectMeta(name="warm", namespace="stock", uid="pool-uid", resource_version="7", generation=3)
    return StockPool(metadata, StockPoolSpec("g1.1", replicas=replicas, **spec), status or StockPoolStatus())


def stock(owner: StockPool, serial: int, state: str = "ready", *, old: bool = False) -> GPUUnit:
    """A stock unit of the pool as it was read."""
    unit = stock_unit(owner, unit_name(owner, serial))
    annotations = unit.metadata.annotations | ({POOL_REVISION: "another"} if old else {})
    return in_state(evolve(unit, metadata=evolve(unit.metadata, annotations=annotations)), serial, state)


def in_state(unit: GPUUnit, number: int, state: str) -> GPUUnit:
    """The unit as it was read, in one of `STATES`; a higher number is a younger unit."""
    metadata = evolve(
        unit.metadata,
        uid=f"uid-{unit.metadata.name}",
        resource_version=str(number),
        generation=1,
        creation_timestamp=f"2026-01-02T00:{number // 60:02d}:{number % 60:02d}Z",
    )
    phase, reason, status, message = _STATUS[state]
    condition = Condition(READY_CONDITION, "True" if status == "True" else "False", reason, message)
    return evolve(
        unit, metadata=metadata, status=GPUUnitStatus(phase=phase, observed_generation=1, conditions=(condition,))
    )


def claimed(unit: GPUUnit) -> GPUUnit:
    """The unit, claimed from its pool."""
    claim = Claim("operation-uid", "op-1", ObjectKey("tenants", "demo"), "warm")
    annotations = unit.metadata.annotations | claim.annotations(NOW)
    return evolve(unit, metadata=evolve(unit.metadata, annotations=annotations, owner_references=()))


def active(source: GPUUnit, name: str = "demo", *, bound: bool, reason: str = UNIT_PROGRESSING) -> GPUUnit:
    """The active unit that took over a stock unit of the pool; a bound one has a node."""
    provenance = Provenance(source.key, source.metadata.uid, "warm")
    metadata = ObjectMeta(name=name, namespace="tenants", annotations=FrozenDict(provenance.annotations()))
    stages = UnitStages(scheduled="2026-01-02T00:00:00Z") if bound else None
    conditions = (Condition(READY_CONDITION, "False", reason, "not yet"),)
    return GPUUnit(metadata, GPUUnitSpec("g1.1"), GPUUnitStatus(stages=stages, conditions=conditions))
