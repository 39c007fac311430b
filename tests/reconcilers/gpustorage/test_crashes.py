"""The GPUStorage operator dies at every write, misses answers and events, and ends where it would have ended."""

from pathlib import Path

import pytest

from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.crashing import everything, explore, sample
from gpuruntime.testing.volumes.fake_volumes import FakeVolumes
from tests.reconcilers.gpustorage.crash_scenes import filling, keeping_storages


async def test_a_sample_of_crashes_failures_and_lags_ends_in_the_same_state(
    product: ClusterAccess, kube_volumes: FakeVolumes, tmp_path: Path
) -> None:
    scenario = filling(kube_volumes.classes.immediate)
    async with kube_volumes.running(within=240):
        report = await explore(scenario, keeping_storages, product, tmp_path, plans=sample(2), max_parallel=4)

    report.check()


@pytest.mark.soak
@pytest.mark.timeout(7200)
async def test_every_crash_failure_and_lag_ends_in_the_same_state(
    product: ClusterAccess, kube_volumes: FakeVolumes, tmp_path: Path
) -> None:
    scenario = filling(kube_volumes.classes.immediate)
    async with kube_volumes.running(within=7200):
        report = await explore(scenario, keeping_storages, product, tmp_path, plans=everything, max_parallel=4)

    report.check()
