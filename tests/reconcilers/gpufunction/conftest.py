"""Fixtures of the tests of the function reconciler."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gpuruntime.testing import AuditLog, ClusterAccess
from tests.product_scenes import Observer, looking_on
from tests.reconcilers.gpufunction.function_scenes import FunctionWorld, function_world


@pytest.fixture
async def world(
    product: ClusterAccess, kube_namespace: str, stock_namespace: str, kube_audit: AuditLog, tmp_path: Path
) -> AsyncIterator[FunctionWorld]:
    """The reconcilers of functions and units may be started in it, in one namespace."""
    async with function_world(product, kube_audit, kube_namespace, stock_namespace, tmp_path) as made:
        yield made


@pytest.fixture
async def observer(world: FunctionWorld) -> AsyncIterator[Observer]:
    """What an administrator sees of the namespace of functions."""
    async with looking_on(world.access, world.active) as made:
        yield made
