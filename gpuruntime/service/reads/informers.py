"""The informers that reconcilers and use cases of a process share: units and storages with their indexes, nodes,
Operations.

The first caller of `Cache.informer` fixes the indexes and the form of a kind. So all callers get theirs here.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from attrs import frozen

from gpuruntime.api.envelope import GPU_PRODUCT
from gpuruntime.api.gpufunction import function_name
from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import ATTACHED_BY_UID, ATTACHED_TO, CLAIM_ID, FUNCTION_LABEL, POOL_LABEL, label_value
from gpuruntime.api.namespaces import SYSTEM_NAMESPACE, Namespaces
from gpuruntime.api.operation import Operation
from gpuruntime.control import Cache, Index, Informer, Store, projected
from gpuruntime.desired.functions.workers import creating_function
from gpuruntime.desired.pools.units import creating_pool
from gpuruntime.desired.provenance import Provenance
from gpuruntime.kube.builtin.nodes import Node
from gpuruntime.meta import ObjectKey, QuantityError, parse_quantity

__all__ = [
    "NodeSummary",
    "source_pool_key",
    "storages_copying",
    "storages_held_by",
    "storages_locked_by",
    "summarize_node",
    "units_claimed_by",
    "units_from_pool",
    "units_mounting",
    "units_of_function",
    "units_of_pool",
    "units_requesting",
    "units_that_took",
    "watch_nodes",
    "watch_operations",
    "watch_storages",
    "watch_units",
]

_GPUS: Final = "nvidia.com/gpu"
_NANO: Final = 10**9


def watch_operations(cache: Cache, namespace: str = SYSTEM_NAMESPACE) -> Informer[Operation]:
    """The informer of Operations."""
    return cache.informer(Operation, namespaces=[namespace])


def watch_units(cache: Cache, namespaces: Sequence[str] = ()) -> Informer[GPUUnit]:
    """The informer of the units in these namespaces; () is all."""
    return cache.informer(GPUUnit, namespaces=namespaces, indexes=_INDEXES)


def watch_storages(cache: Cache, namespaces: Sequence[str] = ()) -> Informer[GPUStorage]:
    """The informer of the storages in these namespaces; () is all."""
    return cache.informer(GPUStorage, namespaces=namespaces, indexes=_STORAGE_INDEXES)


@frozen
class NodeSummary:
    """Readiness of a node, with reason and message if it is not ready, and its GPUs."""

    is_ready: bool
    reason: str = ""
    message: str = ""
    product: str = ""
    capacity: int = 0
    allocatable: int = 0


def summarize_node(raw: Mapping[str, Any]) -> NodeSummary:
    """The summary of a node in its JSON form. A node without a Ready condition is not ready, for no reason.

    A GPU count that is not a quantity counts as 0.
    """
    status = raw.get("status") or {}
    conditions = status.get("conditions") or ()
    ready: Mapping[str, Any] = next((condition for condition in conditions if condition["type"] == "Ready"), {})
    is_ready = ready.get("status") == "True"
    return NodeSummary(
        is_ready=is_ready,
        reason="" if is_ready else ready.get("reason") or "",
        message="" if is_ready else ready.get("message") or "",
        product=(raw["metadata"].get("labels") or {}).get(GPU_PRODUCT, ""),
        capacity=_gpus(status.get("capacity")),
        allocatable=_gpus(status.get("allocatable")),
    )


def watch_nodes(cache: Cache) -> Informer[NodeSummary]:
    """The informer of nodes; the cache holds their summaries only."""
    return cache.informer(projected(Node.KIND, summarize_node))


def _gpus(resources: Mapping[str, Any] | None) -> int:
    try:
        return parse_quantity(str((resources or {}).get(_GPUS, 0))).nanos // _NANO
    except QuantityError:
        return 0


def units_of_pool(units: Store[GPUUnit], pool: ObjectKey) -> tuple[GPUUnit, ...]:
    """The stock units with the label of a pool, or created by it, claimed ones included."""
    return units.list(pool.namespace, where={_OF_POOL.name: label_value(pool.name)}).items


def units_from_pool(units: Store[GPUUnit], pool: ObjectKey) -> tuple[GPUUnit, ...]:
    """The active units whose provenance names a pool."""
    return units.list(where={_FROM_POOL.name: str(pool)}).items


def units_claimed_by(units: Store[GPUUnit], claim: str) -> tuple[GPUUnit, ...]:
    """The units with the id of a claim: the claimed stock unit, and the active unit that takes it over."""
    return units.list(where={_CLAIMED_BY.name: claim}).items


def units_that_took(units: Store[GPUUnit], stock: GPUUnit, namespaces: Namespaces) -> tuple[GPUUnit, ...]:
    """The active units whose provenance names a stock unit, except those being deleted; normally at most one."""
    found = units.list(where={_TAKEN_FROM.name: _stock_value(stock.key, stock.metadata.uid)}).items
    return tuple(
        unit
        for unit in found
        if unit.metadata.deletion_timestamp is None and not namespaces.is_stock(unit.metadata.namespace)
    )


def units_mounting(units: Store[GPUUnit], storage: ObjectKey) -> tuple[GPUUnit, ...]:
    """The units of the storage's namespace whose spec names it, in the order of their names."""
    return units.list(storage.namespace, where={_MOUNTED.name: storage.name}).items


def units_of_function(units: Store[GPUUnit], function: ObjectKey) -> tuple[GPUUnit, ...]:
    """The units with the label of a function, or created by it."""
    return units.list(function.namespace, where={_OF_FUNCTION.name: function.name}).items


def units_requesting(units: Store[GPUUnit], function: ObjectKey) -> tuple[GPUUnit, ...]:
    """The units whose spec has a requestID for which a function of this name would be made, enabled or not."""
    return units.list(function.namespace, where={_REQUESTING.name: function.name}).items


def storages_copying(storages: Store[GPUStorage], source: ObjectKey) -> tuple[GPUStorage, ...]:
    """The storages of the same namespace whose preparation copies a storage."""
    return storages.list(source.namespace, where={_COPIED_FROM.name: source.name}).items


def storages_held_by(storages: Store[GPUStorage], namespace: str, holder: str) -> tuple[GPUStorage, ...]:
    """The storages of a namespace whose lock names this holder, such as gpuunits/demo."""
    return storages.list(namespace, where={_HELD_BY.name: holder}).items


def storages_locked_by(storages: Store[GPUStorage], operation_uid: str) -> tuple[GPUStorage, ...]:
    """The storages that an Operation has locked."""
    return storages.list(where={_LOCKED_BY.name: operation_uid}).items


def source_pool_key(provenance: Provenance) -> ObjectKey | None:
    """The pool that supplied the stock unit; None if none did."""
    return ObjectKey(provenance.stock.namespace, provenance.pool) if provenance.pool else None


def _source(raw: Mapping[str, Any]) -> Provenance | None:
    return Provenance.read(raw["metadata"].get("annotations") or {})


def _source_pools(raw: Mapping[str, Any]) -> Iterable[str]:
    found = _source(raw)
    pool = None if found is None else source_pool_key(found)
    return () if pool is None else (str(pool),)


def _source_units(raw: Mapping[str, Any]) -> Iterable[str]:
    found = _source(raw)
    return () if found is None else (_stock_value(found.stock, found.uid),)


def _stock_value(stock: ObjectKey, uid: str) -> str:
    return f"{stock} {uid}"


def _claims(raw: Mapping[str, Any]) -> Iterable[str]:
    annotations = raw["metadata"].get("annotations") or {}
    return (annotations[CLAIM_ID],) if CLAIM_ID in annotations else ()


def _pools(raw: Mapping[str, Any]) -> Iterable[str]:
    metadata = raw["metadata"]
    label = (metadata.get("labels") or {}).get(POOL_LABEL)
    maker = creating_pool(metadata.get("annotations") or {})
    return {value for value in (label, label_value(maker)) if value}


def _mounted(raw: Mapping[str, Any]) -> Iterable[str]:
    # An index sees units too that cannot be decoded.
    mounts = (raw.get("spec") or {}).get("storageMounts") or ()
    return {mount["name"] for mount in mounts if isinstance(mount, Mapping) and isinstance(mount.get("name"), str)}


def _functions(raw: Mapping[str, Any]) -> Iterable[str]:
    metadata = raw["metadata"]
    label = (metadata.get("labels") or {}).get(FUNCTION_LABEL)
    return {value for value in (label, creating_function(metadata.get("annotations") or {})) if value}


def _requested(raw: Mapping[str, Any]) -> Iterable[str]:
    # An index sees units too that cannot be decoded.
    serverless = (raw.get("spec") or {}).get("serverless")
    request_id = serverless.get("requestID") if isinstance(serverless, Mapping) else None
    return (function_name(request_id),) if isinstance(request_id, str) and request_id else ()


def _copied_from(raw: Mapping[str, Any]) -> Iterable[str]:
    name = ((raw.get("spec") or {}).get("prepare") or {}).get("fromStorageName")
    return () if name is None else (name,)


def _annotation(name: str, raw: Mapping[str, Any]) -> Iterable[str]:
    value = (raw["metadata"].get("annotations") or {}).get(name, "")
    return (value,) if value else ()


_OF_POOL: Final = Index("pool", _pools)
_FROM_POOL: Final = Index("source pool", _source_pools)
_CLAIMED_BY: Final = Index("claim", _claims)
_TAKEN_FROM: Final = Index("source stock unit", _source_units)
_MOUNTED: Final = Index("mounted storage", _mounted)
_OF_FUNCTION: Final = Index("function", _functions)
_REQUESTING: Final = Index("requested function", _requested)
_INDEXES: Final = (_OF_POOL, _FROM_POOL, _CLAIMED_BY, _TAKEN_FROM, _MOUNTED, _OF_FUNCTION, _REQUESTING)
_COPIED_FROM: Final = Index("copied storage", _copied_from)
_HELD_BY: Final = Index("holder", partial(_annotation, ATTACHED_TO))
_LOCKED_BY: Final = Index("locking operation", partial(_annotation, ATTACHED_BY_UID))
_STORAGE_INDEXES: Final = (_COPIED_FROM, _HELD_BY, _LOCKED_BY)
