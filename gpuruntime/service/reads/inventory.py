"""The inventory: nodes, GPUs by product, units, stock and pools, and the age of these figures."""

import asyncio
from collections.abc import Iterable
from typing import Final

from attrs import frozen

from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.api.stockpool import StockPool
from gpuruntime.control import Cache, Informer
from gpuruntime.desired.pools.units import is_ready_stock
from gpuruntime.service.reads.informers import NodeSummary, watch_nodes, watch_units

__all__ = ["GpuTotal", "Inventory", "InventorySnapshot", "totals_by_product"]

_UNKNOWN: Final = "unknown"


@frozen
class GpuTotal:
    """The GPUs of one product."""

    product: str
    nodes: int
    capacity: int
    allocatable: int


@frozen
class InventorySnapshot:
    """The inventory at one moment. `age` is seconds since the caches heard from the API server; None before that."""

    nodes: tuple[NodeSummary, ...] = ()
    active_units: int = 0
    stock_units: int = 0
    ready_stock_units: int = 0
    pools: int = 0
    age: float | None = None

    @property
    def products(self) -> tuple[GpuTotal, ...]:
        return totals_by_product(self.nodes)


def totals_by_product(nodes: Iterable[NodeSummary]) -> tuple[GpuTotal, ...]:
    """Total GPUs by product, sorted by product; "unknown" for nodes without a product label."""
    found: dict[str, list[NodeSummary]] = {}
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
    """Counts the objects in the caches of a process."""

    def __init__(
        self,
        units: Informer[GPUUnit],
        pools: Informer[StockPool],
        storages: Informer[GPUStorage],
        nodes: Informer[NodeSummary],
        namespaces: Namespaces,
    ) -> None:
        self.units = units
        self.pools = pools
        self.storages = storages
        self.nodes = nodes
        self.namespaces = namespaces

    @classmethod
    def of(cls, cache: Cache, namespaces: Namespaces) -> "Inventory":
        """The inventory of units, pools and storages in the namespaces of the product, and of all nodes."""
        return cls(
            watch_units(cache, namespaces.units),
            cache.informer(StockPool, namespaces=namespaces.units),
            cache.informer(GPUStorage, namespaces=namespaces.instance),
            watch_nodes(cache),
            namespaces,
        )

    def take(self) -> InventorySnapshot:
        """The inventory as the caches show it now."""
        units = self.units.store.list().items
        stock = [unit for unit in units if self.namespaces.is_stock(unit.metadata.namespace)]
        return InventorySnapshot(
            nodes=self.nodes.store.list().items,
            active_units=len(units) - len(stock),
            stock_units=len(stock),
            ready_stock_units=sum(map(is_ready_stock, stock)),
            pools=len(self.pools.store.list().items),
            age=self._age(),
        )

    def _age(self) -> float | None:
        """The age of the oldest of the three caches; None while one of them is empty."""
        now = asyncio.get_running_loop().time()
        oldest = max(informer.age(now) for informer in (self.units, self.pools, self.nodes))
        return None if oldest == float("inf") else oldest
