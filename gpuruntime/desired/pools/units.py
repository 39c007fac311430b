"""The stock units of a pool: their spec, names and ownership."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

import orjson

from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.api.names import GROUP, OWNER, OWNER_UID, POOL_LABEL, label_value
from gpuruntime.api.projection import project
from gpuruntime.api.reasons import READY_CONDITION
from gpuruntime.api.stockpool import StockPool, StockPoolSpec
from gpuruntime.desired.provenance import claim_of
from gpuruntime.meta import (
    FrozenDict,
    ObjectMeta,
    OwnerReference,
    controller_of,
    find_condition,
    known_fields,
    set_controller,
)

__all__ = [
    "POOL_REVISION",
    "creating_pool",
    "has_lost_ownership",
    "is_pool",
    "is_ready_stock",
    "is_ready_unit",
    "is_unmodified",
    "reason_of",
    "revision_of",
    "serial_of",
    "stock_spec",
    "stock_unit",
    "unit_name",
]

POOL_REVISION: Final = f"{GROUP}/pool-revision"
"""On a stock unit of a pool: the hash of the unit's spec at its creation."""

_POOLS: Final = f"{StockPool.KIND.plural}.{StockPool.KIND.group}/"
_NAME_LENGTH: Final = 36
_UID_LENGTH: Final = 6
_REVISION_LENGTH: Final = 12


def is_ready_unit(unit: GPUUnit) -> bool:
    """Whether the unit is ready in its current generation, and is not being deleted."""
    ready = find_condition(unit.status.conditions, READY_CONDITION)
    return (
        ready is not None
        and ready.status == "True"
        and unit.status.observed_generation == unit.metadata.generation
        and unit.metadata.deletion_timestamp is None
    )


def is_ready_stock(unit: GPUUnit) -> bool:
    """Whether the unit can be claimed: it is ready, and not claimed. An active unit keeps the claim it was made by."""
    return is_ready_unit(unit) and claim_of(unit.metadata) is None


def reason_of(unit: GPUUnit) -> str:
    """The reason of the unit's Ready condition, "" if it has none yet."""
    ready = find_condition(unit.status.conditions, READY_CONDITION)
    return "" if ready is None else ready.reason


def is_pool(owner: OwnerReference) -> bool:
    """Whether an owner of a unit is a pool."""
    return (owner.group, owner.kind) == (StockPool.KIND.group, StockPool.KIND.kind)


def stock_spec(spec: StockPoolSpec) -> GPUUnitSpec:
    """The spec of the pool's units: all fields that the two specs have in common."""
    return project(spec, GPUUnitSpec)


def stock_unit(pool: StockPool, name: str) -> GPUUnit:
    """The stock unit of the pool to create under this name."""
    spec = stock_spec(pool.spec)
    metadata = ObjectMeta(
        name=name,
        namespace=pool.metadata.namespace,
        labels=FrozenDict({POOL_LABEL: label_value(pool.metadata.name)}),
        annotations=FrozenDict(
            {
                POOL_REVISION: revision_of(spec),
                OWNER: f"{_POOLS}{pool.metadata.name}",
                OWNER_UID: pool.metadata.uid,
            }
        ),
    )
    return GPUUnit(set_controller(metadata, pool), spec)


def is_unmodified(unit: GPUUnit) -> bool:
    """Whether the spec of a unit is still the one that its pool created it with."""
    # The generation counts spec changes, so the hash need not be computed for most units.
    created = unit.metadata.annotations.get(POOL_REVISION)
    return unit.metadata.generation <= 1 or revision_of(unit.spec) == created


def creating_pool(annotations: Mapping[str, str]) -> str:
    """The name of the pool that created a unit, from the unit's annotations; "" if none did."""
    owner = annotations.get(OWNER, "")
    return owner.removeprefix(_POOLS) if owner.startswith(_POOLS) and OWNER_UID in annotations else ""


def has_lost_ownership(unit: GPUUnit, pool: StockPool) -> bool:
    """Whether a unit that the pool created has lost its owner reference or its label.

    False for a claimed unit, which no longer belongs to its pool.
    """
    meta = unit.metadata
    owner, label = controller_of(meta), label_value(pool.metadata.name)
    return (
        meta.annotations.get(OWNER_UID) == pool.metadata.uid
        and claim_of(meta) is None
        and meta.deletion_timestamp is None
        and (owner is None or owner.uid == pool.metadata.uid)
        and (owner is None or meta.labels.get(POOL_LABEL) != label)
    )


def unit_name(pool: StockPool, serial: int) -> str:
    """The name of the pool's unit with this serial number. A later pool of the same name uses different names."""
    return f"{_name_prefix(pool)}{serial}"


def _name_prefix(pool: StockPool) -> str:
    digest = sha256(pool.metadata.uid.encode()).hexdigest()[:_UID_LENGTH]
    return f"{pool.metadata.name[:_NAME_LENGTH].rstrip('-.')}-{digest}-"


def revision_of(spec: GPUUnitSpec) -> str:
    """A hash of the spec, which distinguishes units of an old spec from current ones.

    Guarantees: equal for specs that mean the same to this version, whether a default is omitted or filled in by the
    server, and whatever unknown fields another version has added.
    """
    return sha256(orjson.dumps(known_fields(spec), option=orjson.OPT_SORT_KEYS)).hexdigest()[:_REVISION_LENGTH]


def serial_of(pool: StockPool, name: str) -> int:
    """The serial number in the name of a unit of this pool, 0 for any other name."""
    prefix = _name_prefix(pool)
    number = name.removeprefix(prefix)
    return int(number) if name.startswith(prefix) and number.isascii() and number.isdigit() else 0
