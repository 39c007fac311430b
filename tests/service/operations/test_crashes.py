"""Crash anywhere: no capacity is lost, none is handed out twice, and every request is executed."""

from pathlib import Path

import pytest

from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.crashing import Operator, Scenario, everything, explore, sample
from tests.service.crash_scenes import HANDOFF, serving, shopping
from tests.service.crash_upkeep_scenes import UPKEEP, upkeep

SHOPPING, UPKEEPING = (HANDOFF, serving(shopping)), (UPKEEP, serving(upkeep))


@pytest.mark.parametrize(
    ("scenario", "operator", "plans"),
    # One plan of each type for the hand-off; the crashes for the rest.
    [pytest.param(*SHOPPING, 5, id="hand-off"), pytest.param(*UPKEEPING, 2, id="upkeep")],
)
async def test_the_product_survives_a_sample_of_crashes_and_failures(
    product: ClusterAccess, tmp_path: Path, scenario: Scenario, operator: Operator, plans: int
) -> None:
    report = await explore(scenario, operator, product, tmp_path, plans=sample(plans), max_parallel=3)

    report.check()


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("scenario", "operator"), [SHOPPING, UPKEEPING], ids=["hand-off", "upkeep"])
async def test_the_product_survives_every_crash_and_failure(
    product: ClusterAccess, tmp_path: Path, scenario: Scenario, operator: Operator
) -> None:
    report = await explore(scenario, operator, product, tmp_path, plans=everything, max_parallel=4)

    report.check()
