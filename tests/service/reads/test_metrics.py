from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from prometheus_client import CollectorRegistry

from gpuruntime.api.names import CLAIM_ID
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.service.reads.inventory import Inventory
from gpuruntime.service.reads.metrics import InventoryCollector
from tests.control.operator_scenes import scripted_cache, serve
from tests.control.scenes import running

OURS = "/apis/runtime.lokiwager.io/v1alpha1"
READY = {"phase": "Ready", "observedGeneration": 1, "conditions": [{"type": "Ready", "status": "True", "reason": "x"}]}


def thing(name: str, namespace: str, **parts: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": namespace, "uid": name, "resourceVersion": "1", "generation": 1}
    return {"metadata": {**meta, **parts.pop("metadata", {})}, **parts}


def unit(name: str, namespace: str, gpu: int = 0, spec: str = "g1.1", **parts: Any) -> dict[str, Any]:
    return thing(name, namespace, spec={"specName": spec, "gpu": gpu}, **parts)


def pool(name: str, replicas: int, **status: Any) -> dict[str, Any]:
    return thing(name, "runtime-stock", spec={"specName": "g1.1", "replicas": replicas}, status=status)


def node(name: str, gpus: int, ready: str) -> dict[str, Any]:
    resources = {"nvidia.com/gpu": str(gpus)}
    conditions = [{"type": "Ready", "status": ready}]
    labels = {"nvidia.com/gpu.product": "L40S"}
    return {
        "metadata": {"name": name, "uid": name, "resourceVersion": "1", "labels": labels},
        "status": {"capacity": resources, "allocatable": resources, "conditions": conditions},
    }


@asynccontextmanager
async def stocked(
    units: list[dict[str, Any]],
    pools: list[dict[str, Any]],
    nodes: list[dict[str, Any]],
    storages: tuple[dict[str, Any], ...] = (),
) -> AsyncIterator[CollectorRegistry]:
    """The registry of a process whose caches hold these objects."""
    async with scripted_cache() as (server, cache):
        for namespace in Namespaces().units:
            for plural, kind, objects in (("gpuunits", "GPUUnit", units), ("stockpools", "StockPool", pools)):
                found = [item for item in objects if item["metadata"]["namespace"] == namespace]
                serve(server, f"{OURS}/namespaces/{namespace}/{plural}", kind, found)
        serve(server, f"{OURS}/namespaces/runtime-instance/gpustorages", "GPUStorage", list(storages))
        serve(server, "/api/v1/nodes", "Node", nodes)
        registry = CollectorRegistry()
        InventoryCollector(registry, Inventory.of(cache, Namespaces()))
        async with running(cache):
            await cache.synced()
            yield registry


def figures(registry: CollectorRegistry, name: str) -> Mapping[tuple[str, ...], float]:
    """All samples of a metric that are not 0, by the values of their labels."""
    (family,) = (family for family in registry.collect() if family.name == name)
    return {tuple(sample.labels.values()): sample.value for sample in family.samples if sample.value}


async def test_units_are_counted_by_role_and_phase_and_stock_by_spec_and_state() -> None:
    claimed = {"annotations": {CLAIM_ID: "uid"}}
    units = [
        unit("a", "runtime-instance", gpu=2, status=READY),
        unit("b", "runtime-instance", gpu=1),
        unit("c", "runtime-stock", gpu=4, status=READY),
        unit("d", "runtime-stock", status=READY, metadata=claimed),
        unit("e", "runtime-stock", spec="g2.1", status={"phase": "Failed"}),
        unit("f", "runtime-stock", status={"phase": "Odd"}),
    ]

    async with stocked(units, [], []) as registry:
        phases, stock = figures(registry, "gpuruntime_units"), figures(registry, "gpuruntime_stock_units")
        gpus = figures(registry, "gpuruntime_unit_gpus")

    assert phases == {
        ("active", "Ready"): 1,
        ("active", "Pending"): 1,
        ("stock", "Ready"): 2,
        ("stock", "Failed"): 1,
        ("stock", "Pending"): 1,
    }
    assert stock == {("g1.1", "ready"): 1, ("g1.1", "claimed"): 1, ("g1.1", "unready"): 1, ("g2.1", "unready"): 1}
    assert gpus == {("active",): 3, ("stock",): 4}


async def test_pools_show_desired_and_actual_stock_and_whether_refill_stopped() -> None:
    stopped = [{"type": "Ready", "status": "False", "reason": "RefillStopped"}]
    pools = [pool("full", 2, available=2, allocated=5), pool("poor", 3, conditions=stopped)]

    async with stocked([], pools, []) as registry:
        shown = {
            name: figures(registry, f"gpuruntime_pool_{name}")
            for name in ("target", "available", "allocated", "refill_stopped")
        }

    assert shown == {
        "target": {("runtime-stock/full",): 2, ("runtime-stock/poor",): 3},
        "available": {("runtime-stock/full",): 2},
        "allocated": {("runtime-stock/full",): 5},
        "refill_stopped": {("runtime-stock/poor",): 1},
    }


async def test_more_than_two_hundred_names_share_one_series() -> None:
    units = [unit(f"u{number}", "runtime-stock", spec=f"spec-{number:03}") for number in range(203)]
    pools = [pool(f"p{number:03}", 10) for number in range(202)]

    async with stocked(units, pools, []) as registry:
        stock, targets = figures(registry, "gpuruntime_stock_units"), figures(registry, "gpuruntime_pool_target")

    assert (len(stock), stock["exceeded_cardinality_limit", "unready"]) == (201, 3)
    assert (len(targets), targets["exceeded_cardinality_limit",]) == (201, 20)


async def test_nodes_and_their_gpus_are_summed() -> None:
    nodes = [node("n1", 8, "True"), node("n2", 4, "Unknown")]

    async with stocked([], [], nodes) as registry:
        ready, capacity = figures(registry, "gpuruntime_nodes"), figures(registry, "gpuruntime_gpu_capacity")
        allocatable = figures(registry, "gpuruntime_gpu_allocatable")

    assert ready == {("true",): 1, ("false",): 1}
    assert capacity == allocatable == {("L40S",): 12}
