"""Functions and workers in any state, for tests of function plans."""

from typing import Any

from attrs import evolve

from gpuruntime.api.gpufunction import FunctionScaling, GPUFunction, GPUFunctionSpec, GPUFunctionStatus
from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.api.names import FUNCTION_LABEL, FUNCTION_REQUEST_ID, FUNCTION_REVISION
from gpuruntime.api.serverless import UnitServerless
from gpuruntime.desired.functions.workers import worker_name, worker_unit
from gpuruntime.meta import ObjectMeta
from tests.desired.pool_scenes import in_state

__all__ = ["function", "joined", "worker"]


def function(
    workers: int = 0, *, name: str = "hello", status: GPUFunctionStatus | None = None, **spec: Any
) -> GPUFunction:
    """A function as it was read."""
    metadata = ObjectMeta(name=name, namespace="active", uid=f"{name}-uid", resource_version="7", generation=3)
    scaling = FunctionScaling(min_workers=workers, max_workers=max(workers, 1))
    return GPUFunction(metadata, GPUFunctionSpec("g1.1", scaling=scaling, **spec), status or GPUFunctionStatus())


def worker(
    owner: GPUFunction, serial: int, state: str = "ready", *, is_old: bool = False, is_draining: bool = False
) -> GPUUnit:
    """A worker that the function created, as it was read."""
    unit = worker_unit(owner, worker_name(owner, serial))
    annotations = unit.metadata.annotations | ({FUNCTION_REVISION: "another"} if is_old else {})
    return _seen(evolve(unit, metadata=evolve(unit.metadata, annotations=annotations)), serial, state, is_draining)


def joined(number: int, state: str = "ready", *, is_draining: bool = False, **serverless: Any) -> GPUUnit:
    """A unit that joined the function `hello`, as it was read."""
    spec = GPUUnitSpec("g1.1", serverless=UnitServerless(**{"request_id": "hello", **serverless}))
    meta = ObjectMeta(name=f"mine-{number}", namespace="active")
    return _member_of("hello", _seen(GPUUnit(meta, spec), number, state, is_draining))


def _member_of(name: str, unit: GPUUnit) -> GPUUnit:
    """The unit with the marks of this function, and the requestID of the unit's own spec."""
    request_id = "" if unit.spec.serverless is None else unit.spec.serverless.request_id
    return evolve(
        unit,
        metadata=evolve(
            unit.metadata,
            labels=unit.metadata.labels | {FUNCTION_LABEL: name},
            annotations=unit.metadata.annotations | {FUNCTION_REQUEST_ID: request_id},
        ),
    )


def _seen(unit: GPUUnit, number: int, state: str, is_draining: bool) -> GPUUnit:
    seen = in_state(unit, number, state)
    ended = "2026-01-02T03:00:00Z" if is_draining else None
    return evolve(seen, metadata=evolve(seen.metadata, deletion_timestamp=ended))
