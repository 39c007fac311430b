"""Fixtures of the product for the tests of its reconcilers."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gpuruntime.testing import AuditLog, ClusterAccess
from tests.product_scenes import Observer, kube_namespace, looking_on, product, stock_namespace
from tests.reconcilers.unit_scenes import UnitWorld, unit_world

__all__ = ["kube_namespace", "observer", "product", "stock_namespace", "world"]


@pytest.fixture
async def world(
    product: ClusterAccess, kube_namespace: str, stock_namespace: str, kube_audit: AuditLog, tmp_path: Path
) -> AsyncIterator[UnitWorld]:
    """The reconciler of units may be started in it, for one namespace of active units and one of stock."""
    async with unit_world(product, kube_audit, [kube_namespace], [stock_namespace], tmp_path) as made:
        yield made


@pytest.fixture
async def observer(product: ClusterAccess, kube_namespace: str, stock_namespace: str) -> AsyncIterator[Observer]:
    """What an administrator sees of both."""
    async with looking_on(product, kube_namespace, stock_namespace) as opened:
        yield opened
