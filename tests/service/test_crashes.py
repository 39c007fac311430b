"""Crash anywhere: no capacity is lost, none is handed out twice."""

from pathlib import Path

import pytest

from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.crashing import everything, explore, sample
from tests.service.crash_scenes import HAND_OVER, run_product


async def test_the_product_survives_a_sample_of_crashes_and_failures(product: ClusterAccess, tmp_path: Path) -> None:
    report = await explore(HAND_OVER, run_product, product, tmp_path, plans=sample(8), at_once=3)

    report.check()


@pytest.mark.soak
@pytest.mark.timeout(7200)
async def test_the_product_survives_every_crash_and_failure(product: ClusterAccess, tmp_path: Path) -> None:
    report = await explore(HAND_OVER, run_product, product, tmp_path, plans=everything, at_once=4)

    report.check()
