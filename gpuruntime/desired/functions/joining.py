"""Units that others made and that join a function by its requestID, and the function that is made if there is none.

A unit joins by a label and an annotation, which the operator writes. It keeps its spec and its owner, if it has one.

| the unit's spec | then |
|---|---|
| `serverless.requestID` of a function of its namespace | it joins that function; of two functions, the older one |
| a requestID that no function has | a function is made from the unit, and the unit joins it |
| another requestID than before | it leaves, and joins the other function |
| no `serverless`, or `enabled: false` | it leaves |
"""

from collections.abc import Iterable

from gpuruntime.api.gpufunction import FunctionScaling, GPUFunction, GPUFunctionSpec, function_name, request_id_of
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import FUNCTION_LABEL, FUNCTION_REQUEST_ID
from gpuruntime.api.projection import project
from gpuruntime.api.serverless import DEFAULT_IDLE_SECONDS
from gpuruntime.desired.functions.workers import is_made_by_function
from gpuruntime.desired.units.worker import function_of, serverless_of
from gpuruntime.meta import ObjectKey, ObjectMeta

__all__ = ["can_join", "function_from", "has_joined", "has_stale_marks", "holder", "needs_joining", "requested"]


def requested(unit: GPUUnit) -> str:
    """The requestID of the function that a unit wants to join; "" if it wants to join none."""
    serverless = serverless_of(unit.spec)
    return "" if serverless is None or is_made_by_function(unit) else serverless.request_id


def can_join(unit: GPUUnit, request_id: str) -> bool:
    """Whether a unit is to be a worker of the function with this requestID."""
    return unit.metadata.deletion_timestamp is None and requested(unit) == request_id


def has_joined(unit: GPUUnit, function: GPUFunction) -> bool:
    """Whether a unit that others made is a worker of the function."""
    return requested(unit) == request_id_of(function) and function_of(unit) == function.metadata.name


def needs_joining(unit: GPUUnit, function: GPUFunction) -> bool:
    """Whether a unit is to be a worker of the function, and is not yet."""
    return can_join(unit, request_id_of(function)) and not has_joined(unit, function)


def has_stale_marks(unit: GPUUnit) -> bool:
    """Whether a unit that others made has marks of a function that its spec does not name."""
    meta = unit.metadata
    is_marked = FUNCTION_LABEL in meta.labels or FUNCTION_REQUEST_ID in meta.annotations
    return is_marked and meta.deletion_timestamp is None and not is_made_by_function(unit) and not function_of(unit)


def holder(functions: Iterable[GPUFunction]) -> GPUFunction | None:
    """Which of the functions with one requestID in a namespace has it: the oldest. None if there are none."""
    return min(functions, key=_age, default=None)


def function_from(unit: GPUUnit, *, is_name_taken: bool) -> GPUFunction:
    """The function that is made from a unit.

    Its name is that of `function_name`; with `is_name_taken`, another one that no function is named after.

    Guarantees: valid for every valid unit that wants to join a function. Storages that the unit mounts exclusively are
    left out: workers that the function creates could not mount them. Such a function wants one worker at most, which is
    the unit.

    Raises:
        ValueError: the unit is no worker.
    """
    serverless, spec = serverless_of(unit.spec), unit.spec
    if serverless is None:
        raise ValueError(f"unit {unit.key}: expected one that wants to join a function")
    shared = tuple(mount for mount in spec.storage_mounts if mount.read_only)
    is_alone = len(shared) < len(spec.storage_mounts)
    least = min(serverless.min_available_count, 1) if is_alone else serverless.min_available_count
    name = function_name(serverless.request_id)
    if is_name_taken:
        # With the underscore it is no valid name, so that this is the beginning with a hash.
        name = function_name(f"_{serverless.request_id}")
    wanted = project(
        spec,
        GPUFunctionSpec,
        request_id=None if name == serverless.request_id else serverless.request_id,
        framework=serverless.framework,
        scaling=FunctionScaling(
            min_workers=least,
            max_workers=max(least, 1),
            concurrency=serverless.concurrency,
            idle_timeout_seconds=serverless.idle_timeout_seconds or DEFAULT_IDLE_SECONDS,
        ),
        security_profile=spec.security_profile,
        storage_mounts=shared,
    )
    return GPUFunction(ObjectMeta(name=name, namespace=unit.metadata.namespace), wanted)


def _age(function: GPUFunction) -> tuple[str, ObjectKey, str]:
    meta = function.metadata
    return meta.creation_timestamp or "", function.key, meta.uid
