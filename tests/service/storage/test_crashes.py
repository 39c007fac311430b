"""Crash anywhere: no storage has two users, no data is lost, and every request is executed."""

from pathlib import Path

import pytest

from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.crashing import everything, explore, sample
from gpuruntime.testing.volumes.fake_volumes import FakeVolumes
from tests.service.storage.crash_scenes import handed_on, storing


async def test_a_storage_survives_a_sample_of_crashes_and_failures(
    product: ClusterAccess, kube_volumes: FakeVolumes, tmp_path: Path
) -> None:
    operator = storing(kube_volumes.classes.immediate)
    async with kube_volumes.running(within=240):
        report = await explore(handed_on(), operator, product, tmp_path, plans=sample(1), max_parallel=3)

    report.check()


@pytest.mark.soak
@pytest.mark.timeout(7200)
async def test_a_storage_survives_every_crash_and_failure(
    product: ClusterAccess, kube_volumes: FakeVolumes, tmp_path: Path
) -> None:
    operator = storing(kube_volumes.classes.immediate)
    async with kube_volumes.running(within=7200):
        report = await explore(handed_on(), operator, product, tmp_path, plans=everything, max_parallel=4)

    report.check()
