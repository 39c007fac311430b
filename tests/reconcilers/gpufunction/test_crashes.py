"""The operator of functions dies at every write, misses answers and events, and ends where it would have ended."""

from pathlib import Path

import pytest

from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.crashing import everything, explore, sample
from tests.reconcilers.gpufunction.crash_scenes import SCENARIO, keeping_functions


async def test_a_sample_of_crashes_failures_and_lags_ends_in_the_same_state(
    product: ClusterAccess, tmp_path: Path
) -> None:
    report = await explore(SCENARIO, keeping_functions, product, tmp_path, plans=sample(2), max_parallel=4)

    report.check()


@pytest.mark.soak
@pytest.mark.timeout(7200)
async def test_every_crash_failure_and_lag_ends_in_the_same_state(product: ClusterAccess, tmp_path: Path) -> None:
    report = await explore(SCENARIO, keeping_functions, product, tmp_path, plans=everything, max_parallel=4)

    report.check()
