"""The product's reconciler as a contender, on its own cluster."""

import io
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from gpuruntime.testing.processes.supervised import ChildProcesses
from gpuruntime.testing.progress import Progress
from hack.benchmarks.catalogue import GO, Catalogue, loops
from hack.benchmarks.contenders import Contender, Failure, Runner
from hack.benchmarks.measuring import set_up_contenders
from hack.benchmarks.operator.converge import become_ready, converging, limit_of
from hack.benchmarks.operator.equivalence import differences, form_of
from hack.benchmarks.operator.operating import Operating
from hack.benchmarks.operator.unit_bench import UnitBench
from hack.benchmarks.operator.world import World, unit_world

UNITS = 3


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with unit_world(tmp_path_factory.mktemp("bench") / "cluster", UNITS) as made:
        yield made


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[UnitBench]:
    with ChildProcesses(tmp_path / "children") as children:
        yield UnitBench(
            runner=Runner(children, tmp_path),
            progress=Progress(io.StringIO()),
            directory=tmp_path,
            repeat=1,
            quick=True,
            idle_seconds=1.0,
        )


async def nothing() -> Mapping[str, float]:
    return {}


async def test_ours_makes_units_ready_and_writes_nothing_after_a_restart(bench: UnitBench, world: World) -> None:
    ours = Catalogue(bench.directory, bench.progress).ours("operating.py", loops()[-1:])[0]
    operating = Operating(bench.runner, world, limit_of(UNITS))

    async def making() -> Mapping[str, float]:
        return await become_ready(world, bench)

    made = await operating.run(ours, making, units=0)
    restarted = await operating.run(ours, nothing, units=UNITS)

    assert not isinstance(made, Failure)
    assert not isinstance(restarted, Failure)
    assert made["writes"] >= 5 * UNITS
    assert (made["event_writes"], made["rest_writes"]) == (UNITS, 0)
    assert made["ready_seconds"] > made["created_seconds"] > 0
    assert (restarted["rest_writes"], restarted["writes"]) == (0, 0)
    assert restarted["rest_runs"] >= UNITS
    assert not list(differences(form_of(world), form_of(world)))


async def test_a_contender_that_exits_before_it_is_ready_fails(bench: UnitBench, world: World) -> None:
    dying = Contender("dying", ("/bin/sh", "-c", "echo no such luck; exit 3"))

    outcome = await Operating(bench.runner, world, limit_of(UNITS)).run(dying, nothing, units=0)

    assert outcome == Failure("exit code 3: no such luck")


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_the_go_controller_and_ours_make_the_same_of_a_unit(bench: UnitBench) -> None:
    scenario = converging(10 * UNITS)
    contenders = set_up_contenders([scenario], bench.progress)[scenario.name]

    figures = await scenario.run(bench, contenders)

    names = [GO, *(loop.contender for loop in loops())]
    assert all(figure.summary(name) is not None for figure in figures for name in names)
