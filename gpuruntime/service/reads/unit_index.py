"""The one informer of units that reconcilers and use cases share, with the indexes by which each of them looks.

Indexes are fixed by whoever asks first, so everybody asks here.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import CLAIM_ID, POOL_LABEL, label_value
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.control import Cache, Index, Informer, Store
from gpuruntime.desired.pool_units import creating_pool
from gpuruntime.desired.provenance import Provenance
from gpuruntime.meta import ObjectKey

__all__ = [
    "source_pool_key",
    "units_claimed_by",
    "units_from_pool",
    "units_of_pool",
    "units_that_took",
    "watch_units",
]


def watch_units(cache: Cache, namespaces: Sequence[str] = ()) -> Informer[GPUUnit]:
    """The informer of the units of these namespaces, of all of them if there are none."""
    return cache.informer(GPUUnit, namespaces=namespaces, indexes=_INDEXES)


def units_of_pool(units: Store[GPUUnit], pool: ObjectKey) -> tuple[GPUUnit, ...]:
    """The stock units that bear the label of a pool, or that it made, claimed ones included."""
    return units.list(pool.namespace, where={_OF_POOL.name: label_value(pool.name)}).items


def units_from_pool(units: Store[GPUUnit], pool: ObjectKey) -> tuple[GPUUnit, ...]:
    """The active units whose provenance names a pool."""
    return units.list(where={_FROM_POOL.name: str(pool)}).items


def units_claimed_by(units: Store[GPUUnit], claim: str) -> tuple[GPUUnit, ...]:
    """The units that bear the id of a claim: the claimed stock unit, and the active unit that takes it over."""
    return units.list(where={_CLAIMED_BY.name: claim}).items


def units_that_took(units: Store[GPUUnit], stock: GPUUnit, namespaces: Namespaces) -> tuple[GPUUnit, ...]:
    """The active units whose provenance names a stock unit, but for those on their way out; one at most, if all is
    well.
    """
    found = units.list(where={_TAKEN_FROM.name: _named(stock.key, stock.metadata.uid)}).items
    return tuple(
        unit
        for unit in found
        if unit.metadata.deletion_timestamp is None and not namespaces.is_stock(unit.metadata.namespace)
    )


def source_pool_key(provenance: Provenance) -> ObjectKey | None:
    """The pool that supplied the capacity, None if none did."""
    return ObjectKey(provenance.stock.namespace, provenance.pool) if provenance.pool else None


def _source(raw: Mapping[str, Any]) -> Provenance | None:
    return Provenance.read(raw["metadata"].get("annotations") or {})


def _source_pools(raw: Mapping[str, Any]) -> Iterable[str]:
    found = _source(raw)
    pool = None if found is None else source_pool_key(found)
    return () if pool is None else (str(pool),)


def _source_units(raw: Mapping[str, Any]) -> Iterable[str]:
    found = _source(raw)
    return () if found is None else (_named(found.stock, found.uid),)


def _named(stock: ObjectKey, uid: str) -> str:
    return f"{stock} {uid}"


def _claims(raw: Mapping[str, Any]) -> Iterable[str]:
    annotations = raw["metadata"].get("annotations") or {}
    return (annotations[CLAIM_ID],) if CLAIM_ID in annotations else ()


def _pools(raw: Mapping[str, Any]) -> Iterable[str]:
    metadata = raw["metadata"]
    label = (metadata.get("labels") or {}).get(POOL_LABEL)
    maker = creating_pool(metadata.get("annotations") or {})
    return {value for value in (label, label_value(maker)) if value}


_OF_POOL: Final = Index("pool", _pools)
_FROM_POOL: Final = Index("source pool", _source_pools)
_CLAIMED_BY: Final = Index("claim", _claims)
_TAKEN_FROM: Final = Index("source stock unit", _source_units)
_INDEXES: Final = (_OF_POOL, _FROM_POOL, _CLAIMED_BY, _TAKEN_FROM)
