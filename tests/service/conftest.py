"""Fixtures of the product for the tests of its use cases."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gpuruntime.testing import AuditLog, ClusterAccess
from tests.product_scenes import Observer, kube_namespace, looking_on, product, stock_namespace
from tests.service.service_scenes import ServiceWorld, service_world

__all__ = ["kube_namespace", "observer", "product", "stock_namespace", "world"]


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
