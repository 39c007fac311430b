"""Fixtures of the product for the tests of its use cases."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.control import Informer
from gpuruntime.testing import AuditLog, ClusterAccess
from tests.mount_scenes import Storages, storages_of
from tests.product_scenes import Observer, kube_namespace, looking_on, product, stock_namespace
from tests.service.service_scenes import ServiceWorld, looking_at, service_world

__all__ = ["kube_namespace", "observer", "product", "seen_storages", "stock_namespace", "storages", "world"]


@pytest.fixture
async def world(
    product: ClusterAccess,
    kube_namespace: str,
    stock_namespace: str,
    kube_audit: AuditLog,
    tmp_path: Path,
) -> AsyncIterator[ServiceWorld]:
    """The whole product in two namespaces of the test's own."""
    async with service_world(product, kube_audit, kube_namespace, stock_namespace, tmp_path) as made:
        yield made


@pytest.fixture
async def observer(world: ServiceWorld) -> AsyncIterator[Observer]:
    """An observer of units in both namespaces."""
    async with looking_on(world.access, world.active, world.stock) as made:
        yield made


@pytest.fixture
def storages(world: ServiceWorld) -> Iterator[Storages]:
    """Storages in the namespace of active units."""
    with storages_of(world.access.admin(), world.active) as made:
        yield made


@pytest.fixture
async def seen_storages(world: ServiceWorld) -> AsyncIterator[Informer[GPUStorage]]:
    """An administrator's view of the storages."""
    async with looking_at(world.access, GPUStorage, world.active) as informer:
        yield informer
