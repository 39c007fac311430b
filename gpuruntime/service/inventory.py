"""What there is: nodes, GPUs by product, units, stock, and how old that knowledge is."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

from attrs import frozen

from gpuruntime.api.envelope import GPU_PRODUCT
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.roles import Roles
from gpuruntime.api.stockpool import StockPool
from gpuruntime.control import Cache, Informer, projected
from gpuruntime.desired.pool_units import is_ready_stock
from gpuruntime.kube.builtin.nodes import Node
from gpuruntime.meta.quantities import QuantityError, parse_quantity
from gpuruntime.service.unit_index import watch_units

__all__ = ["GpuNode", "GpuTotal", "Inventory", "Stocktaking", "summarize_gpu_node", "totals_by_product"]

_GPUS: Final = "nvidia.com/gpu"
_UNKNOWN: Final = "unknown"
_NANO: Final = 10**9


@frozen
class GpuNode:
    """What counts of a node."""

    is_ready: bool
    product: str = ""
    capacity: int = 0
    allocatable: int = 0


@frozen
class GpuTotal:
    """The GPUs of one product."""

    product: str
    nodes: int
    capacity: int
    allocatable: int


@frozen
class Stocktaking:
    """What there was at one moment. `age` is how long ago the API server was last heard of, None if it never was."""

    nodes: tuple[GpuNode, ...] = ()
    active_units: int = 0
    stock_units: int = 0
    ready_stock_units: int = 0
    pools: int = 0
    age: float | None = None

    @property
    def products(self) -> tuple[GpuTotal, ...]:
        return totals_by_product(self.nodes)


def summarize_gpu_node(raw: Mapping[str, Any]) -> GpuNode:
    """The summary of a node as it is on the wire. A number of GPUs that is no number counts as none."""
    status = raw.get("status") or {}
    conditions = status.get("conditions") or ()
    return GpuNode(
        is_ready=any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions),
        product=(raw["metadata"].get("labels") or {}).get(GPU_PRODUCT, ""),
        capacity=_count(status.get("capacity")),
        allocatable=_count(status.get("allocatable")),
    )


def totals_by_product(nodes: Iterable[GpuNode]) -> tuple[GpuTotal, ...]:
    """The GPUs of nodes that have any, by product, sorted by its name; "unknown" where a node names none."""
    found: dict[str, list[GpuNode]] = {}
    for node in nodes:
        if node.capacity or node.product:
            found.setdefault(node.product or _UNKNOWN, []).append(node)
    return tuple(
        GpuTotal(
            product,
            len(having),
            sum(node.capacity for node in having),
            sum(node.allocatable for node in having),
        )
        for product, having in sorted(found.items())
    )


class Inventory:
    """Counts what the caches of a process show."""

    def __init__(
        self, units: Informer[GPUUnit], pools: Informer[StockPool], nodes: Informer[GpuNode], roles: Roles
    ) -> None:
        self._units = units
        self._pools = pools
        self._nodes = nodes
        self._roles = roles

    @classmethod
    def of(cls, cache: Cache, namespaces: tuple[str, ...], roles: Roles) -> "Inventory":
        """The inventory of units and pools in these namespaces, and of all nodes."""
        return cls(
            watch_units(cache, namespaces),
            cache.informer(StockPool, namespaces=namespaces),
            cache.informer(projected(Node.KIND, summarize_gpu_node)),
            roles,
        )

    def take(self) -> Stocktaking:
        """What there is, as far as it is known now."""
        units = self._units.store.list().items
        stock = [unit for unit in units if self._roles.is_stock(unit.metadata.namespace)]
        return Stocktaking(
            nodes=self._nodes.store.list().items,
            active_units=len(units) - len(stock),
            stock_units=len(stock),
            ready_stock_units=sum(map(is_ready_stock, stock)),
            pools=len(self._pools.store.list().items),
            age=self._age(),
        )

    def _age(self) -> float | None:
        """Of the three caches the one that waited longest counts; a cache that heard of nothing yet has no age."""
        now = asyncio.get_running_loop().time()
        oldest = max(informer.age(now) for informer in (self._units, self._pools, self._nodes))
        return None if oldest == float("inf") else oldest


def _count(resources: Mapping[str, Any] | None) -> int:
    try:
        return parse_quantity(str((resources or {}).get(_GPUS, 0))).nanos // _NANO
    except QuantityError:
        return 0
