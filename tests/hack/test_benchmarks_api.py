import asyncio
import io
from pathlib import Path

import pytest

from gpuruntime.testing.processes.supervised import ChildProcesses
from gpuruntime.testing.progress import Progress
from hack.benchmarks.alternating import Results
from hack.benchmarks.api.claims import BARE_PATCH, CLAIMS, FULL, OURS, PUBLISHED, Load, measures
from hack.benchmarks.api.duplicates import DUPLICATES
from hack.benchmarks.api.hostile import BARE_GET, HOSTILE
from hack.benchmarks.api.hostile import measures as hostile_measures
from hack.benchmarks.api.latencies import Latencies, arrivals, one_by_one, sent_at
from hack.benchmarks.api.sizes import SIZES
from hack.benchmarks.api_bench import SCENARIOS
from hack.benchmarks.contenders import Contender, Runner
from hack.benchmarks.report import Report, ScenarioReport, as_table
from hack.benchmarks.scenario import Bench


def judged(*windows: tuple[float, float]) -> str:
    """Our row in the figure with a bar, for windows given as (claim ms, bare PATCH ms)."""
    ours = [{"paused rate p50": claim, "paused rate times": claim / bare} for claim, bare in windows]
    theirs = [{"paused rate p50": bare} for _, bare in windows]
    results = Results({OURS: ours, BARE_PATCH: theirs, PUBLISHED: [{"paused rate p50": 92.0}]})
    figures = [results.figure(measure) for measure in measures(FULL) if measure.bars]
    participants = tuple(Contender(name, ()) for name in (OURS, BARE_PATCH, PUBLISHED))
    table = as_table(Report({}, (ScenarioReport("claims", "", participants, (figures[0],)),)))
    return next(line for line in table.splitlines() if line.startswith(OURS))


@pytest.mark.parametrize(("ours", "verdict"), [(40.0, "met"), (40.1, "not met")])
def test_a_claim_may_take_as_long_as_four_bare_patches(ours: float, verdict: str) -> None:
    row = judged((ours, 10.0))

    assert row.endswith(f"at most 4 x  {verdict}")


@pytest.mark.parametrize(("slow", "verdict"), [(58.0, "met"), (82.0, "not met")])
def test_a_claim_is_compared_with_the_patches_of_its_own_window(slow: float, verdict: str) -> None:
    row = judged((38.0, 10.0), (slow, 20.0), (41.0, 10.0))

    assert row.endswith(f"at most 4 x  {verdict}")


def test_figures_are_named_after_the_load_that_was_measured() -> None:
    names = [measure.name for measure in measures(Load(stock=20, rate=10.0, burst=15))]

    assert names[0] == "claim p50, 10 a second, reconcilers paused"
    assert "sent again after 503 or 504, 15 at once, reconcilers running" in names


def test_arrival_times_are_the_same_in_every_run_and_have_the_given_rate() -> None:
    times = arrivals(2000, 45.0, seed=8)

    assert times == arrivals(2000, 45.0, seed=8)
    assert times == tuple(sorted(times))
    assert 40 < 2000 / times[-1] < 50


def test_the_slowest_of_a_hundred_requests_is_not_the_99th_percentile() -> None:
    some = Latencies(tuple(number / 1000 for number in range(1, 101)))

    assert (some.p50, some.p90, some.p99) == (50.5, 90.0, 99.0)


async def test_every_request_is_sent_once_at_each_time_without_waiting_for_the_others() -> None:
    together = asyncio.Barrier(6)
    sent: list[tuple[str, int]] = []

    async def claim(number: int) -> None:
        sent.append(("claim", number))
        await together.wait()

    async def patch(number: int) -> None:
        sent.append(("patch", number))
        await together.wait()

    found = await sent_at((0.0, 0.0, 0.0), claim, patch)
    alone = await one_by_one(2, lambda _: asyncio.sleep(0))

    assert sorted(sent) == [(name, number) for name in ("claim", "patch") for number in range(3)]
    assert [len(some.seconds) for some in (*found, alone)] == [3, 3, 2]


def test_the_scenarios_of_the_api_are_listed() -> None:
    assert list(SCENARIOS) == ["claims", "duplicates", "sizes", "hostile", "followers"]


@pytest.mark.parametrize(("attacked", "verdict"), [(300.0, "met"), (301.0, "not met")])
def test_hostile_requests_may_add_250_ms_to_the_quiet_window_of_the_round(attacked: float, verdict: str) -> None:
    bombs = next(measure for measure in hostile_measures() if measure.bars and "bombs without" in measure.name)
    reading = {"no request beyond": 50.0, "10 gzip bombs without a token beyond": attacked}
    figure = Results({OURS: [reading], BARE_GET: []}).figure(bombs)

    table = as_table(Report({}, (ScenarioReport("hostile", "", (Contender(OURS, ()),), (figure,)),)))

    assert table.endswith(f"at most 250 ms  {verdict}")


@pytest.mark.soak
@pytest.mark.timeout(280)
async def test_the_hostile_scenario_runs_on_its_own_cluster(tmp_path: Path) -> None:
    with ChildProcesses(tmp_path / "children") as children:
        progress = Progress(io.StringIO())
        bench = Bench(runner=Runner(children, tmp_path), progress=progress, directory=tmp_path, repeat=1, quick=True)

        figures = await HOSTILE.run(bench, ())

    assert all(figure.summary(OURS) is not None for figure in figures)
    assert not (tmp_path / "api").exists()


@pytest.mark.soak
@pytest.mark.timeout(280)
async def test_every_scenario_returns_all_its_figures(tmp_path: Path) -> None:
    with ChildProcesses(tmp_path / "children") as children:
        progress = Progress(io.StringIO())
        bench = Bench(runner=Runner(children, tmp_path), progress=progress, directory=tmp_path, repeat=1, quick=True)

        claims, sizes = await CLAIMS.run(bench, ()), await SIZES.run(bench, ())
        duplicates = await DUPLICATES.run(bench, ())

    assert all(figure.summary(OURS) is not None for figure in (*claims, *sizes, *duplicates))
    timed = [figure for figure in claims if figure.name.startswith("claim p")]
    assert all(figure.summary(BARE_PATCH) is not None for figure in timed)
    assert all(figure.summary(PUBLISHED) is None for figure in timed)
    assert not (tmp_path / "api").exists()
