import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuruntime.testing.processes.supervised import ChildProcesses
from hack.benchmarks.alternating import Measure, Results, alternate
from hack.benchmarks.contenders import Contender, Failure, Outcome, Runner
from hack.benchmarks.faulty_server import FAULTS, FaultyServer
from hack.benchmarks.figures import Bar, Figure, Summary
from hack.benchmarks.peer_scripts import load_peers
from hack.benchmarks.pods import pod
from hack.benchmarks.report import Report, ScenarioReport, as_json, as_table
from hack.benchmarks.scenario import load_scenarios

SECONDS = Measure("time", "s", lambda reading: reading["seconds"], (Bar("slow", 1.5, "go"), Bar("quick", 1.5, "go")))


def stand_in(name: str, script: str) -> Contender:
    return Contender(name, (sys.executable, "-c", script))


def taking(name: str, seconds: float) -> Contender:
    """A contender that reports a fixed number of seconds."""
    return stand_in(name, f"print({json.dumps({'seconds': seconds})!r})")


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    with ChildProcesses(tmp_path / "children") as children:
        yield Runner(children, tmp_path)


async def run(runner: Runner, contender: Contender, limit: float = 60.0) -> Outcome:
    return await runner.run(contender, (), {}, limit)


async def measured(runner: Runner, *contenders: Contender, rounds: int = 1) -> Results:
    async def once(contender: Contender) -> Outcome:
        return await run(runner, contender)

    return await alternate(contenders, rounds, once, lambda _text: None)


def report_of(figure: Figure, *contenders: Contender) -> Report:
    return Report({}, (ScenarioReport("stand-ins", "Stand-ins", contenders, (figure,)),))


def row_of(table: str, name: str) -> str:
    return next(line for line in table.splitlines() if line.split()[:1] == [name])


async def test_a_slow_contender_misses_its_bar_and_a_quick_one_meets_it(runner: Runner) -> None:
    contenders = (taking("go", 1.0), taking("slow", 2.0), taking("quick", 1.2))

    report = report_of((await measured(runner, *contenders)).figure(SECONDS), *contenders)

    assert row_of(as_table(report), "slow").endswith("2..2  2.00  at most 1.5x go  not met")
    assert row_of(as_table(report), "quick").endswith("1.2..1.2  1.20  at most 1.5x go  met")
    assert not report.all_met


async def test_a_contender_that_uses_more_cpu_is_measured_as_slower(runner: Runner) -> None:
    work = "from hack.benchmarks.contender_program import Meter; meter = Meter(); sum(range({})); meter.finish(0)"
    environment = {"PYTHONPATH": str(Path(__file__).parents[2])}
    quick, slow = (
        Contender(name, (sys.executable, "-c", work.format(size)), environment=environment)
        for name, size in (("go", 1), ("slow", 20_000_000))
    )
    cpu = Measure("CPU", "s", lambda reading: reading["cpu_seconds"], (Bar("slow", 1.5, "go"),))

    figure = (await measured(runner, quick, slow)).figure(cpu)

    assert figure.met(figure.bars[0]) is False


async def test_a_crashed_contender_is_reported_with_its_last_line_and_the_others_continue(runner: Runner) -> None:
    crashing = stand_in("slow", "print('starting'); raise SystemExit('no such cluster')")
    contenders = (taking("go", 1.0), crashing, taking("quick", 1.0))

    results = await measured(runner, *contenders, rounds=2)

    table = as_table(report_of(results.figure(SECONDS), *contenders))
    assert row_of(table, "slow").endswith("not known  failed: exit code 1: no such cluster")
    assert row_of(table, "quick").endswith("met")
    assert {name: len(readings) for name, readings in results.readings.items()} == {"go": 2, "slow": 0, "quick": 2}


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("print('all fine')", "it printed no result: all fine"),
        ("pass", "it printed no result: it printed nothing"),
        ("import os; os.kill(os.getpid(), 9)", "exit code -9: it printed nothing"),
    ],
)
async def test_a_contender_without_a_result_has_failed(runner: Runner, script: str, reason: str) -> None:
    assert await run(runner, stand_in("odd", script)) == Failure(reason)


async def test_a_contender_that_cannot_be_set_up_fails_without_a_start(runner: Runner) -> None:
    broken = Contender("kopf", ("/no/such/python",), broken="kopf cannot be installed")

    assert await run(runner, broken) == Failure("kopf cannot be installed")


async def test_a_contender_that_does_not_exit_is_killed_and_fails(runner: Runner) -> None:
    endless = stand_in("endless", "import time; time.sleep(600)")

    assert await run(runner, endless, limit=0.5) == Failure("not done after 0.5 s: it printed nothing")


async def test_a_cancelled_run_leaves_no_contender_behind(runner: Runner, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    script = f"import os, time; open({str(pipe)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    running = asyncio.create_task(run(runner, stand_in("endless", script)))
    pid = int(await asyncio.to_thread(pipe.read_text))

    running.cancel()
    await asyncio.wait([running])

    assert running.cancelled()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


async def test_the_last_json_object_of_numbers_is_the_result_whatever_else_is_printed(runner: Runner) -> None:
    script = """
print('{"seconds": 1}')
print('{"seconds": 2, "longest_stall_ms": null}')
print('{"message": "a line of a JSON log"}')
print('goodbye')
"""

    assert await run(runner, stand_in("chatty", script)) == {"seconds": 2.0}


async def test_every_contender_runs_once_per_round_and_each_round_starts_with_another() -> None:
    order: list[str] = []

    async def once(contender: Contender) -> Outcome:
        order.append(contender.name)
        return {"seconds": float(len(order))}

    results = await alternate([Contender(name, ()) for name in "abc"], 3, once, lambda _text: None, warm_ups=1)

    assert "".join(order) == "cab" + "abc" + "bca" + "cab"
    assert [reading["seconds"] for reading in results.readings["a"]] == [4.0, 9.0, 11.0]


def test_a_summary_is_the_median_and_the_extremes() -> None:
    assert Summary.of((5.0, 1.0, 2.0)) == Summary(median=2.0, least=1.0, most=5.0)
    assert Summary.of((4.0, 1.0)) == Summary(median=2.5, least=1.0, most=4.0)


def test_a_bar_compares_medians_and_is_unknown_without_them() -> None:
    figure = Figure("time", "s", {"go": (1.0, 9.0, 2.0), "ours": (3.0, 0.5, 8.0), "kopf": (1.0,)}, {"kopf": "crashed"})

    assert figure.ratio("ours", "go") == 1.5
    assert figure.met(Bar("ours", 1.5, "go")) is True
    assert figure.met(Bar("ours", 1.49, "go")) is False
    assert figure.met(Bar("ours", 2.9)) is False
    assert figure.met(Bar("ours", 1 / 6, "kopf")) is None
    assert figure.met(Bar("absent", 1.0)) is None


def test_a_bar_describes_its_limit() -> None:
    assert Bar("ours", 30.0).text("ms") == "at most 30 ms"
    assert Bar("ours", 1.5, "go").text("s") == "at most 1.5x go"
    assert Bar("ours", 1 / 6, "kopf").text("s") == "at most 1/6 of kopf"


def test_json_holds_every_sample_and_every_verdict() -> None:
    figure = Figure("time", "s", {"go": (2.0,), "ours": (3.0, 5.0)}, {"kopf": "crashed"}, (Bar("ours", 1.5, "go"),))

    document = json.loads(json.dumps(as_json(report_of(figure))))

    found = document["scenarios"][0]["figures"][0]
    assert document["all_met"] is False
    assert found["contenders"]["ours"] == {
        "samples": [3.0, 5.0],
        "median": 4.0,
        "min": 3.0,
        "max": 5.0,
        "times_go": 2.0,
        "failure": None,
    }
    assert found["contenders"]["kopf"]["failure"] == "crashed"
    assert found["bars"] == [{"contender": "ours", "bar": "at most 1.5x go", "limit": 1.5, "times": "go", "met": False}]


async def test_a_client_that_retries_the_faulty_server_at_once_has_a_high_request_rate(
    runner: Runner, tmp_path: Path
) -> None:
    hot = """
import json, os, time, urllib.request
server = json.load(open(os.environ["KUBECONFIG"]))["clusters"][0]["cluster"]["server"]
for number in range(100):
    with urllib.request.urlopen(server + "/api/v1/pods?watch=true") as answer:
        assert answer.read() == b""
print('{"seconds": 1}')
"""
    async with FaultyServer(FAULTS[0]) as server:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(server.kubeconfig())

        outcome = await runner.run(stand_in("hot", hot), (), {"KUBECONFIG": str(kubeconfig)}, 60.0)

        assert outcome == {"seconds": 1.0}
        assert server.rate(0.0, 50.0) == 2.0
        assert server.rate(50.0, 60.0) == 0.0


def test_every_scenario_and_every_peer_is_found() -> None:
    peers = {peer.name: peer for peer in load_peers()}

    assert set(load_scenarios()) == {
        "churn",
        "coalescing",
        "hotloop",
        "import",
        "latency",
        "queue",
        "stopping",
        "sync",
    }
    assert set(peers) == {"kopf", "kr8s", "kubernetes", "lightkube"}
    assert all(peer.version and peer.imports and peer.note for peer in peers.values())
    assert all("==" in requirement for peer in peers.values() for requirement in peer.requirements)


def test_a_pod_has_about_one_and_a_half_kilobytes_of_spec() -> None:
    size = len(json.dumps(pod(9_999)["spec"], separators=(",", ":")))

    assert 1_400 <= size <= 1_600
