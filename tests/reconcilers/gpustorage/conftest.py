"""Fixtures of the tests of the storage reconciler."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gpuruntime.testing import AuditLog, ClusterAccess
from gpuruntime.testing.volumes.fake_volumes import FakeVolumes
from tests.reconcilers.storage_scenes import StorageWorld, storage_world


@pytest.fixture
async def storages(
    product: ClusterAccess,
    kube_namespace: str,
    stock_namespace: str,
    kube_audit: AuditLog,
    kube_volumes: FakeVolumes,
    tmp_path: Path,
) -> AsyncIterator[StorageWorld]:
    """The reconciler of storages may be started in it, in one namespace; a provisioner is at work."""
    async with storage_world(product, kube_audit, kube_volumes, kube_namespace, stock_namespace, tmp_path) as made:
        yield made
