"""The product's kinds on the cluster of the test run, and an observer of its objects.

Import the fixtures in a `conftest.py`: `product` is the cluster with the kinds and priority classes installed;
`kube_namespace`, for active units, and `stock_namespace` are namespaces of the test.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from attrs import frozen

from gpuruntime.api.gpufunction import GPUFunction
from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.operation import Operation
from gpuruntime.api.stockpool import StockPool
from gpuruntime.control import Cache, Controller, Informer, condition_true, wait_for
from gpuruntime.control.informers.consistent_read import wait_for_consistent_read
from gpuruntime.control.informers.waiting import WaitCondition
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.kube.builtin.apps import Deployment
from gpuruntime.kube.builtin.core import Service
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.kube.transport.transport import Transport
from gpuruntime.meta import ObjectKey, find_condition
from gpuruntime.schema.custom_resource import definition
from gpuruntime.testing import AdminClient, ClusterAccess, RefusedError
from tests.control.scenes import await_served
from tests.kept_namespaces import kept_namespace, kube_namespace

__all__ = [
    "UNITS",
    "Observer",
    "create_unit",
    "eventually",
    "install_product",
    "kube_namespace",
    "looking_on",
    "product",
    "ready_reason",
    "rested",
    "settled",
    "stock_namespace",
]

UNITS = "/apis/runtime.lokiwager.io/v1alpha1/namespaces/{}/gpuunits"
_KINDS = (GPUUnit, GPUFunction, GPUStorage, StockPool, Operation)
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_PRIORITIES = Path(__file__).resolve().parents[1] / "manifests" / "platform" / "priority-classes.yaml"
_PATIENCE_SECONDS = 60.0


def install_product(admin: AdminClient) -> None:
    """Install the kinds and priority classes, also concurrently; returns when they are served."""
    for crd in (definition(kind) for kind in _KINDS):
        _create_once(admin, _CRDS, crd)
    for priority in yaml.safe_load_all(_PRIORITIES.read_text()):
        _create_once(admin, "/apis/scheduling.k8s.io/v1/priorityclasses", priority)
    for kind in _KINDS:
        await_served(admin, kind.KIND.path())


def _create_once(admin: AdminClient, path: str, body: Mapping[str, Any]) -> None:
    try:
        admin.create(path, body)
    except RefusedError as error:
        if error.status != 409:
            raise


@pytest.fixture(scope="session")
def product(kube_cluster: ClusterAccess) -> ClusterAccess:
    """The cluster of the run, with the product's kinds and priority classes."""
    install_product(kube_cluster.admin())
    return kube_cluster


@pytest.fixture
def stock_namespace(kube_cluster: ClusterAccess) -> Iterator[str]:
    """A second namespace of the test, for stock."""
    with kept_namespace(kube_cluster.admin(), "stock") as name:
        yield name


def create_unit(admin: AdminClient, namespace: str, name: str, **spec: Any) -> ObjectKey:
    """Create a unit as a user does, with a minimal spec and these fields."""
    body = {
        "apiVersion": "runtime.lokiwager.io/v1alpha1",
        "kind": "GPUUnit",
        "metadata": {"name": name},
        "spec": {"specName": "g1.1", "cpu": "1", "memory": "1Gi", **spec},
    }
    admin.create(UNITS.format(namespace), body)
    return ObjectKey(namespace, name)


def ready_reason(unit: GPUUnit) -> str:
    """The reason of the Ready condition, "" if there is none."""
    found = find_condition(unit.status.conditions, "Ready")
    return "" if found is None else found.reason


@frozen
class Observer:
    """Observes the cluster as an administrator, with its own informers instead of those of the code under test."""

    units: Informer[GPUUnit]
    deployments: Informer[Deployment]
    services: Informer[Service]
    pods: Informer[Pod]

    async def ready(self, key: ObjectKey, generation: int = 1) -> GPUUnit:
        """The unit, once it is ready in this generation or a newer one, with the stages in its status."""

        def has_stages(unit: GPUUnit | None) -> bool:
            stages = None if unit is None else unit.status.stages
            is_new = unit is not None and unit.metadata.generation >= generation
            return is_new and stages is not None and stages.ready is not None

        staged: WaitCondition[GPUUnit] = WaitCondition(f"generation {generation} has its stages", has_stages)
        return await self._unit(key, condition_true("Ready").and_(staged))

    async def because(self, key: ObjectKey, reason: str, words: str = "", within: float = _PATIENCE_SECONDS) -> GPUUnit:
        """The unit, once it is not ready for this reason, with a message that contains these words."""

        def holds(unit: GPUUnit | None) -> bool:
            found = None if unit is None else find_condition(unit.status.conditions, "Ready")
            return found is not None and found.reason == reason and words in (found.message or "")

        return await self._unit(key, WaitCondition(f"it is not ready because of {reason} ({words})", holds), within)

    async def until(self, key: ObjectKey, text: str, holds: Callable[[GPUUnit], bool]) -> GPUUnit:
        """The unit, once a predicate holds."""
        return await self._unit(key, WaitCondition(text, lambda unit: unit is not None and holds(unit)))

    async def _unit(
        self, key: ObjectKey, predicate: WaitCondition[GPUUnit], within: float = _PATIENCE_SECONDS
    ) -> GPUUnit:
        unit = await wait_for(self.units, key, predicate, within=within)
        assert unit is not None
        return unit


@asynccontextmanager
async def looking_on(access: ClusterAccess, *namespaces: str) -> AsyncIterator[Observer]:
    """An observer, for the length of the block."""
    async with Transport(from_kubeconfig(access.kubeconfig), user_agent="observer") as transport:
        cache = Cache(transport)
        observer = Observer(
            units=cache.informer(GPUUnit, namespaces=namespaces),
            deployments=cache.informer(Deployment, namespaces=namespaces),
            services=cache.informer(Service, namespaces=namespaces),
            pods=cache.informer(Pod, namespaces=namespaces),
        )
        task = asyncio.create_task(cache.run())
        try:
            await cache.synced(within=_PATIENCE_SECONDS)
            yield observer
        finally:
            task.cancel()
            await asyncio.wait([task])


async def eventually(condition: Callable[[], bool]) -> None:
    """Poll for a condition without an event; the timeout of the test is the limit."""
    while not condition():  # noqa: ASYNC110 - see above
        await asyncio.sleep(0.02)


async def settled(access: ClusterAccess, controller: Controller[Any]) -> None:
    """Returns when the controller has reconciled everything that is on the server now."""
    async with Transport(from_kubeconfig(access.kubeconfig), user_agent="observer") as transport:
        for informer in controller.informers:
            await wait_for_consistent_read(informer, transport, within=_PATIENCE_SECONDS)
    await rested(controller)


async def rested(controller: Controller[Any], runs: int = 1) -> None:
    """Returns when the controller has made at least this number of runs since its start, and its queue is empty."""

    def is_idle() -> bool:
        made = sum(controller.counters.results.values())
        return made >= runs and not controller.counters.active_workers and not controller.queue.counters.total_depth()

    await eventually(is_idle)
