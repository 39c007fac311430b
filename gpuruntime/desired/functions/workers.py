"""The workers that a function creates: their spec, names and ownership."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from gpuruntime.api.gpufunction import GPUFunction, request_id_of
from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.api.names import FUNCTION_LABEL, FUNCTION_REQUEST_ID, FUNCTION_REVISION, OWNER, OWNER_UID
from gpuruntime.api.projection import project
from gpuruntime.api.serverless import UnitServerless
from gpuruntime.desired.pools.units import revision_of
from gpuruntime.desired.units.worker import DRAIN_MARGIN_SECONDS
from gpuruntime.meta import FrozenDict, ObjectMeta, OwnerReference, controller_of, set_controller

__all__ = [
    "creating_function",
    "has_lost_ownership",
    "is_current",
    "is_function",
    "is_made_by_function",
    "serial_of",
    "worker_name",
    "worker_spec",
    "worker_unit",
]

_FUNCTIONS: Final = f"{GPUFunction.KIND.plural}.{GPUFunction.KIND.group}/"
_LONGEST_GRACE: Final = 3600
# With a serial number of ten digits and the prefix of its children, the name of a worker is a DNS label.
_NAME_LENGTH: Final = 47
_DIGEST_LENGTH: Final = 10


def worker_spec(function: GPUFunction) -> GPUUnitSpec:
    """The spec of the function's workers: all fields that the two specs have in common, and what a worker needs.

    Guarantees: the grace period lets a run of `timeoutSeconds` finish, an hour at most.
    """
    spec = function.spec
    return project(
        spec,
        GPUUnitSpec,
        security_profile=spec.security_profile,
        storage_mounts=spec.storage_mounts,
        termination_grace_period_seconds=min(spec.invocation.timeout_seconds + DRAIN_MARGIN_SECONDS, _LONGEST_GRACE),
        serverless=UnitServerless(
            request_id_of(function), concurrency=spec.scaling.concurrency, framework=spec.framework
        ),
    )


def worker_unit(function: GPUFunction, name: str) -> GPUUnit:
    """The worker of the function to create under this name."""
    meta, spec = function.metadata, worker_spec(function)
    metadata = ObjectMeta(
        name=name,
        namespace=meta.namespace,
        labels=FrozenDict({FUNCTION_LABEL: meta.name}),
        annotations=FrozenDict(
            {
                FUNCTION_REQUEST_ID: request_id_of(function),
                FUNCTION_REVISION: revision_of(spec),
                OWNER: f"{_FUNCTIONS}{meta.name}",
                OWNER_UID: meta.uid,
            }
        ),
    )
    return GPUUnit(set_controller(metadata, function), spec)


def is_current(unit: GPUUnit, revision: str) -> bool:
    """Whether a worker has this revision, and its spec was not edited since its creation."""
    # The generation counts spec changes, so the hash need not be computed for most units.
    is_same = unit.metadata.annotations.get(FUNCTION_REVISION) == revision
    return is_same and (unit.metadata.generation <= 1 or revision_of(unit.spec) == revision)


def is_function(owner: OwnerReference) -> bool:
    """Whether an owner of a unit is a function."""
    return (owner.group, owner.kind) == (GPUFunction.KIND.group, GPUFunction.KIND.kind)


def creating_function(annotations: Mapping[str, str]) -> str:
    """The name of the function that created a unit, from the unit's annotations; "" if none did."""
    owner = annotations.get(OWNER, "")
    return owner.removeprefix(_FUNCTIONS) if owner.startswith(_FUNCTIONS) and OWNER_UID in annotations else ""


def is_made_by_function(unit: GPUUnit) -> bool:
    """Whether a function created the unit, or owns it. Such a unit joins no other function."""
    owner = controller_of(unit.metadata)
    return bool(creating_function(unit.metadata.annotations)) or (owner is not None and is_function(owner))


def has_lost_ownership(unit: GPUUnit, function: GPUFunction) -> bool:
    """Whether a worker that the function created has lost its owner reference, its label or its requestID."""
    meta, identity = unit.metadata, function.metadata
    owner = controller_of(meta)
    return (
        meta.annotations.get(OWNER_UID) == identity.uid
        and meta.deletion_timestamp is None
        and (owner is None or owner.uid == identity.uid)
        and (
            owner is None
            or meta.labels.get(FUNCTION_LABEL) != identity.name
            or meta.annotations.get(FUNCTION_REQUEST_ID) != request_id_of(function)
        )
    )


def worker_name(function: GPUFunction, serial: int) -> str:
    """The name of the function's worker with this serial number: "<function>-<serial>", with a hash for a long name.

    Guarantees: for a function, different numbers give different names. Workers of two functions can have the same name
    only if the hashes of long names collide, or one function is named like the beginning of the other with its hash.
    """
    return f"{_name_prefix(function.metadata.name)}{serial}"


def serial_of(function: GPUFunction, name: str) -> int:
    """The serial number in the name of a worker of this function, 0 for any other name."""
    prefix = _name_prefix(function.metadata.name)
    number = name.removeprefix(prefix)
    is_ours = name.startswith(prefix) and number.isascii() and number.isdigit() and not number.startswith("0")
    return int(number) if is_ours else 0


def _name_prefix(name: str) -> str:
    if len(name) <= _NAME_LENGTH:
        return f"{name}-"
    digest = sha256(name.encode()).hexdigest()[:_DIGEST_LENGTH]
    return f"{name[: _NAME_LENGTH - _DIGEST_LENGTH - 1].rstrip('-')}-{digest}-"
