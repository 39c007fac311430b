"""`hack/bench functions`: its bars, and that its scenarios measure all that they promise."""

import io
from pathlib import Path

import pytest

from gpuruntime.bus import OutgoingMessage
from gpuruntime.testing.nats import NatsServer
from gpuruntime.testing.processes.supervised import ChildProcesses
from gpuruntime.testing.progress import Progress
from hack.benchmarks.alternating import Results
from hack.benchmarks.api.latencies import Latencies
from hack.benchmarks.contenders import Contender, Reading, Runner
from hack.benchmarks.figures import Figure
from hack.benchmarks.functions import backlog, echo, http_rate
from hack.benchmarks.functions.answering import QUEUE, connected
from hack.benchmarks.functions.bus import BUS, MEASURES, OURS, SINGLE
from hack.benchmarks.functions.floors import FLOOR, FLOORS, Floors
from hack.benchmarks.functions.unwritten_api import Unwritten
from hack.benchmarks.functions_bench import SCENARIOS
from hack.benchmarks.report import Report, ScenarioReport, as_table
from hack.benchmarks.scenario import Bench


def test_the_scenarios_of_functions_are_listed() -> None:
    assert list(SCENARIOS) == ["floors", "bus", "echo", "http", "backlog"]


@pytest.mark.parametrize(("seconds", "verdict"), [(1.0, "met"), (1.01, "not met")])
def test_group_commit_is_to_be_three_times_as_fast_as_single_publishes(seconds: float, verdict: str) -> None:
    ours, single = {"seconds": seconds, "messages": 100.0}, {"seconds": 3.0, "messages": 100.0}
    figure = Results({OURS: [ours], SINGLE: [single]}).figure(MEASURES[0])

    table = as_table(Report({}, (ScenarioReport("bus", "", (Contender(OURS, ()),), (figure,)),)))

    assert table.endswith(f"at most 1/3 of single publishes  {verdict}")


def test_the_sum_of_the_floors_has_two_requests() -> None:
    publish, commit, request, call = (Latencies((seconds,)) for seconds in (0.001, 0.002, 0.004, 0.008))
    floors = Floors(publish, commit, request, call, echo_cpu=0.0005)

    assert floors.sum_p50 == pytest.approx(1 + 2 + 2 * 4 + 8)
    assert floors.reading["socket p95"] == pytest.approx(8)
    assert floors.reading["echo cpu"] == pytest.approx(0.5)


def _verdicts(figure: Figure) -> list[bool | None]:
    return [figure.met(bar) for bar in figure.bars]


@pytest.mark.parametrize(("times", "is_met"), [(1.0, True), (1.01, False)])
def test_an_echo_is_judged_by_the_floors_of_its_run(times: float, is_met: bool) -> None:
    publish, commit, request, call = (Latencies((seconds,)) for seconds in (0.001, 0.002, 0.004, 0.008))
    floors = Floors(publish, commit, request, call, echo_cpu=0.0001)
    # The sum is 19 ms, the CPU of the HTTP echo is 0.1 ms.
    ours = {"p50": 2.0 * 19 * times, "p95": 3.0 * 19 * times}
    parts: dict[str, list[Reading]] = {part: [{"cpu": 0.25 * times}] for part in ("api", "activator", "sidecar")}
    results = Results(
        {
            FLOOR: [echo.floor_reading(floors)],
            echo.OURS: [ours],
            echo.HTTP_ECHO: [{"cpu": floors.echo_cpu * 1000}],
            **parts,
        }
    )

    verdicts = [_verdicts(results.figure(measure)) for measure in echo.MEASURES]

    assert verdicts == [[is_met], [is_met], [is_met, is_met, is_met]]


@pytest.mark.parametrize(("a_second", "is_met"), [(60.0, True), (59.5, False)])
def test_the_rate_over_http_is_to_be_six_tenths_of_that_without_the_publish(a_second: float, is_met: bool) -> None:
    ours, left_out = {"seconds": 1.0, "messages": a_second}, {"seconds": 1.0, "messages": 100.0}
    results = Results({http_rate.OURS: [ours], http_rate.LEFT_OUT: [left_out]})

    time_of_a_post = results.figure(http_rate.MEASURES[0])

    assert _verdicts(time_of_a_post) == [is_met]


@pytest.mark.parametrize(("lost", "megabytes", "verdicts"), [(0.0, 50.0, [True, True]), (1.0, 50.1, [False, False])])
def test_a_backlog_may_lose_nothing_and_take_little_memory(lost: float, megabytes: float, verdicts: list[bool]) -> None:
    results = Results({backlog.OURS: [{"lost": lost, "megabytes": megabytes, "rate": 100.0}]})

    judged = [_verdicts(results.figure(measure)) for measure in backlog.MEASURES]

    assert judged == [[verdicts[0]], [verdicts[1]], []]


async def test_the_api_without_the_publish_acknowledges_and_stores_nothing(nats_server: NatsServer) -> None:
    async with connected(nats_server.options()) as bus:
        await bus.jetstream.ensure_stream(QUEUE)
        writer = Unwritten(bus.jetstream, lambda _size: None)

        acks = [await writer.publish(QUEUE.name, OutgoingMessage("inv.unwritten", b"")) for _ in range(2)]
        stream = await bus.jetstream.stream_info(QUEUE.name)

    assert [ack.sequence for ack in acks] == [1, 2]
    assert stream is not None
    assert stream.messages == 0


async def test_the_scenarios_without_a_cluster_return_all_their_figures_and_leave_nothing(tmp_path: Path) -> None:
    with ChildProcesses(tmp_path / "children") as children:
        progress = Progress(io.StringIO())
        bench = Bench(runner=Runner(children, tmp_path), progress=progress, directory=tmp_path, repeat=1, quick=True)

        floors, bus = await FLOORS.run(bench, ()), await BUS.run(bench, ())

    assert all(figure.summary(FLOOR) is not None for figure in floors)
    assert all(figure.summary(name) is not None for figure in bus for name in (OURS, SINGLE))
    assert not (tmp_path / "floors").exists()
    assert not (tmp_path / "bus").exists()
