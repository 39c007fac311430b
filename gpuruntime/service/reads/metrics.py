"""Metrics of the inventory: units, stock, pools, storages, nodes and GPUs, counted in the caches at each scrape."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, get_args

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import CLAIM_ID
from gpuruntime.api.namespaces import Role
from gpuruntime.api.reasons import FAILED, PROGRESSING, READY, READY_CONDITION, REFILL_STOPPED
from gpuruntime.api.stockpool import StockPool
from gpuruntime.desired.pools.units import is_ready_stock
from gpuruntime.meta import find_condition
from gpuruntime.service.reads.inventory import Inventory, totals_by_product
from gpuruntime.service.reads.storage_metrics import StorageFigures

__all__ = ["InventoryCollector"]

_PENDING: Final = "Pending"
_PHASES: Final = (_PENDING, PROGRESSING, READY, FAILED)
_STATES: Final = ("ready", "claimed", "unready")
_MAX_SERIES: Final = 200
_OVERFLOW: Final = "exceeded_cardinality_limit"


class InventoryCollector(Collector):
    """Collects the metrics of an inventory.

    Guarantees:
        Cardinality is bounded, although users choose the names of specs and pools: the first 200 of each, in
        alphabetical order, have their own series; the others are summed up in one.

    Caveats:
        A scrape iterates over every unit and storage in the cache.
    """

    def __init__(self, registry: CollectorRegistry, inventory: Inventory) -> None:
        self._inventory = inventory
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        return (*_Units().all(), *_Pools().all(), *StorageFigures().all(), *_Hardware().all())

    def collect(self) -> Iterable[Metric]:
        inventory = self._inventory
        units, pools, storages, hardware = _Units(), _Pools(), StorageFigures(), _Hardware()
        found = inventory.units.store.list().items
        units.fill(found, inventory)
        pools.fill(inventory.pools.store.list().items)
        storages.fill(inventory.storages.store.list().items, found)
        hardware.fill(inventory)
        return (*units.all(), *pools.all(), *storages.all(), *hardware.all())


class _Units:
    """Metrics of units and stock in one scrape."""

    def __init__(self) -> None:
        self._units = _gauge(
            "gpuruntime_units",
            "Units in the cluster, by role and phase; Pending: not reconciled yet.",
            "role",
            "phase",
        )
        self._gpus = _gauge("gpuruntime_unit_gpus", "GPUs requested by units, by role.", "role")
        self._stock = _gauge(
            "gpuruntime_stock_units",
            "Stock units, by spec and state: ready to be claimed, claimed for a hand-off, or unready.",
            "spec",
            "state",
        )

    def all(self) -> Iterator[Metric]:
        yield from (self._units, self._gpus, self._stock)

    def fill(self, units: Iterable[GPUUnit], inventory: Inventory) -> None:
        roles: tuple[Role, ...] = get_args(Role)
        phases = Counter({(role, phase): 0 for role in roles for phase in _PHASES})
        gpus = Counter(dict.fromkeys(roles, 0))
        stock: dict[str, Counter[str]] = {}
        for unit in units:
            role = inventory.namespaces.role_of(unit.metadata.namespace)
            phases[role, unit.status.phase if unit.status.phase in _PHASES else _PENDING] += 1
            gpus[role] += unit.spec.gpu
            if role == "stock":
                stock.setdefault(unit.spec.spec_name, Counter())[_state(unit)] += 1
        for labels, count in phases.items():
            self._units.add_metric(labels, count)
        for role in roles:
            self._gpus.add_metric((role,), gpus[role])
        for spec, states in _limited(stock):
            for state in _STATES:
                self._stock.add_metric((spec, state), states[state])


class _Pools:
    """Metrics of pools in one scrape."""

    def __init__(self) -> None:
        self._families = {
            "target": _gauge("gpuruntime_pool_target", "Desired number of ready stock units of a pool.", "pool"),
            "available": _gauge(
                "gpuruntime_pool_available", "Stock units of a pool that are ready and unclaimed.", "pool"
            ),
            "allocated": _gauge("gpuruntime_pool_allocated", "Active units that use capacity from a pool.", "pool"),
            "stopped": _gauge(
                "gpuruntime_pool_refill_stopped",
                "1 while a pool has stopped refilling because its stock units failed, else 0.",
                "pool",
            ),
        }

    def all(self) -> Iterator[Metric]:
        yield from self._families.values()

    def fill(self, pools: Iterable[StockPool]) -> None:
        for name, figures in _limited({str(pool.key): _figures(pool) for pool in pools}):
            for figure, family in self._families.items():
                family.add_metric((name,), figures[figure])


class _Hardware:
    """Metrics of nodes and GPUs in one scrape."""

    def __init__(self) -> None:
        self._nodes = _gauge("gpuruntime_nodes", "Nodes of the cluster, by readiness.", "ready")
        self._capacity = _gauge("gpuruntime_gpu_capacity", "GPU capacity of all nodes, by product.", "product")
        self._allocatable = _gauge(
            "gpuruntime_gpu_allocatable", "Allocatable GPUs of all nodes, by product.", "product"
        )

    def all(self) -> Iterator[Metric]:
        yield from (self._nodes, self._capacity, self._allocatable)

    def fill(self, inventory: Inventory) -> None:
        nodes = inventory.nodes.store.list().items
        ready = sum(node.is_ready for node in nodes)
        self._nodes.add_metric(("true",), ready)
        self._nodes.add_metric(("false",), len(nodes) - ready)
        for total in totals_by_product(nodes):
            self._capacity.add_metric((total.product,), total.capacity)
            self._allocatable.add_metric((total.product,), total.allocatable)


def _state(unit: GPUUnit) -> str:
    if CLAIM_ID in unit.metadata.annotations:
        return "claimed"
    return "ready" if is_ready_stock(unit) else "unready"


def _figures(pool: StockPool) -> Counter[str]:
    ready = find_condition(pool.status.conditions, READY_CONDITION)
    return Counter(
        target=pool.spec.replicas,
        available=pool.status.available or 0,
        allocated=pool.status.allocated or 0,
        stopped=int(ready is not None and ready.reason == REFILL_STOPPED),
    )


def _limited(found: dict[str, Counter[str]]) -> Iterator[tuple[str, Counter[str]]]:
    """The first 200 by name, and the sum of the others."""
    names = sorted(found)
    yield from ((name, found[name]) for name in names[:_MAX_SERIES])
    if len(names) > _MAX_SERIES:
        yield _OVERFLOW, sum((found[name] for name in names[_MAX_SERIES:]), Counter())


def _gauge(name: str, documentation: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, documentation, labels=labels)
