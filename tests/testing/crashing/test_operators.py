"""Operators that are programs."""

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.crashing import Launch, UnusableScenarioError, explore, only, program
from tests.testing.crashing.toy_operators import children_scenario

ROOT = Path(__file__).resolve().parents[3]
OPERATOR = """
import asyncio, os, pathlib, sys
from gpuruntime.testing.crashing import Launch
from tests.testing.crashing.toy_operators import Correct, toy
asyncio.run(toy(Correct)(Launch(pathlib.Path(os.environ["KUBECONFIG"]), {"main": sys.argv[1]})))
"""


def command(launch: Launch) -> list[str]:
    return [sys.executable, "-c", OPERATOR, launch.namespace()]


def environment(_launch: Launch) -> Mapping[str, str]:
    return {"PYTHONPATH": str(ROOT)}


def logs_in(directory: Path) -> list[Path]:
    return list(directory.glob("run-*/operator.log"))


async def test_a_program_is_killed_and_restarted(kube_cluster: ClusterAccess, tmp_path: Path) -> None:
    plans = only("crash-after-write:1", "second-pass")

    report = await explore(
        children_scenario(),
        program(command, environment),
        kube_cluster,
        tmp_path,
        plans=plans,
        max_parallel=2,
        environ={},
    )

    report.check()
    assert report.not_triggered == ()
    assert [verdict.exits for verdict in report.verdicts] == [(), ()]
    assert len(logs_in(tmp_path)) == 3


async def test_a_program_that_exits_by_itself_is_reported_with_its_exit_code(
    kube_cluster: ClusterAccess, tmp_path: Path
) -> None:
    with pytest.raises(UnusableScenarioError, match="exit code 3"):
        await explore(
            children_scenario(timeout=30.0),  # it is reported when the timeout expires
            program(lambda _: [sys.executable, "-c", "exit(3)"]),
            kube_cluster,
            tmp_path,
            environ={},
        )
