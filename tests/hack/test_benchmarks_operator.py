import asyncio
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gpuruntime.testing.processes.supervised import ChildProcesses
from hack.benchmarks.__main__ import main
from hack.benchmarks.alternating import Measure, Results, alternate
from hack.benchmarks.catalogue import loops
from hack.benchmarks.contenders import Contender, Failure, Outcome, Runner
from hack.benchmarks.operator.audit_log import UserLog, count_writes
from hack.benchmarks.operator.converge import measures
from hack.benchmarks.operator.equivalence import differences
from hack.benchmarks.operator.idle import idle_measures, restart_measures
from hack.benchmarks.operator.readiness import is_ready
from hack.benchmarks.operator.rendezvous import Rendezvous
from hack.benchmarks.operator_bench import SCENARIOS
from hack.benchmarks.report import Report, ScenarioReport, as_table

UNITS = 100
OURS = loops()[-1].contender
READING = {
    "ready_seconds": 10.0,
    "created_seconds": 2.0,
    "cpu_seconds": 1.0,
    "writes": 500,
    "status_writes": 200,
    "event_writes": 100,
    "refused_writes": 0,
    "objects": 300,
    "peak_rss_kb": 50_000,
}
IDLE_READING = {
    "writes": 0,
    "objects": 0,
    "cpu_seconds": 0.1,
    "seconds": 300,
    "rss_after_kb": 90_000,
    "rss_empty_kb": 40_000,
}


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    with ChildProcesses(tmp_path / "children") as children:
        yield Runner(children, tmp_path)


def taking(name: str, reading: Mapping[str, float]) -> Contender:
    """A contender that reports a fixed reading."""
    return Contender(name, (sys.executable, "-c", f"print({json.dumps(dict(reading))!r})"))


async def judged(runner: Runner, measures: tuple[Measure, ...], *contenders: Contender) -> dict[str, str]:
    """The row of our contender in the table of each figure."""

    async def once(contender: Contender) -> Outcome:
        return await runner.run(contender, (), {}, 60.0)

    results: Results = await alternate(contenders, 1, once, lambda _text: None)
    rows = {}
    for measure in measures:
        figure = results.figure(measure)
        report = Report({}, (ScenarioReport("stand-ins", "Stand-ins", contenders, (figure,)),))
        rows[measure.name] = next(line for line in as_table(report).splitlines() if line.startswith(OURS))
    return rows


async def test_an_operator_that_is_too_slow_and_writes_too_much_misses_its_bars(runner: Runner) -> None:
    slow = {**READING, "ready_seconds": 11.5, "cpu_seconds": 1.6, "writes": 501}

    rows = await judged(runner, measures(UNITS), taking("go", READING), taking(OURS, slow))

    assert rows["time until 100 units are ready"].endswith("1.15  at most 1.1x go  not met")
    assert rows["CPU of a unit"].endswith("1.60  at most 1.5x go  not met")
    assert rows["writes of a unit"].endswith("1.00  at most 1x go  not met")


async def test_an_operator_at_the_limits_meets_its_bars(runner: Runner) -> None:
    good = {**READING, "ready_seconds": 10.9, "cpu_seconds": 1.49}

    rows = await judged(runner, measures(UNITS), taking("go", READING), taking(OURS, good))

    assert rows["time until 100 units are ready"].endswith("1.09  at most 1.1x go  met")
    assert rows["CPU of a unit"].endswith("1.49  at most 1.5x go  met")
    assert rows["writes of a unit"].endswith("1.00  at most 1x go  met")
    assert rows["reconciles of a unit"].split()[-3:] == ["3", "3..3", "1.00"]


@pytest.mark.parametrize(("writes", "verdict"), [(0, "met"), (1, "not met")])
async def test_a_single_write_in_the_idle_period_misses_the_bar(runner: Runner, writes: int, verdict: str) -> None:
    contender = taking(OURS, {**IDLE_READING, "writes": writes})

    rows = await judged(runner, idle_measures(UNITS), contender)

    assert rows["writes while idle"].endswith(f"at most 0 writes  {verdict}")
    assert rows["memory of a unit"].split()[2] == "500"


@pytest.mark.parametrize(("writes", "verdict"), [(0, "met"), (1, "not met")])
async def test_a_single_write_of_a_restart_misses_the_bar(runner: Runner, writes: int, verdict: str) -> None:
    reading = {"rest_seconds": 2.0, "rest_cpu_seconds": 1.5, "rest_runs": UNITS, "rest_writes": writes}

    rows = await judged(runner, restart_measures(UNITS), taking(OURS, reading))

    assert rows["writes of a restart"].endswith(f"at most 0 writes  {verdict}")


async def test_a_contender_waits_between_ready_and_done_until_the_bench_ends_it(runner: Runner) -> None:
    script = """
import asyncio
from hack.benchmarks.contender_program import Meter, report_ready, wait_until_done
async def work():
    meter = Meter()
    await report_ready()
    await wait_until_done()
    meter.finish(7, rest_runs=3)
asyncio.run(work())
"""
    environment = {"PYTHONPATH": str(Path(__file__).parents[2])}
    contender = Contender("patient", (sys.executable, "-c", script), environment=environment)

    async with Rendezvous() as rendezvous:
        running = asyncio.create_task(runner.run(contender, (), rendezvous.environment(), 60.0))
        await rendezvous.ready()
        waits = not running.done()
        rendezvous.end()
        outcome = await running

    assert waits
    assert not isinstance(outcome, Failure)
    assert (outcome["objects"], outcome["rest_runs"]) == (7.0, 3.0)


def test_only_answered_writes_of_the_user_between_two_positions_count(tmp_path: Path) -> None:
    log = UserLog(tmp_path / "audit.log", "system:serviceaccount:bench:somebody")
    before = audit_line("create", "deployments")
    asked = [
        audit_line("create", "deployments"),
        audit_line("create", "services", user="somebody-else"),
        audit_line("patch", "gpuunits", subresource="status"),
        audit_line("patch", "gpuunits", subresource="status", code=409),
        audit_line("create", "events"),
        audit_line("create", "events", stage="RequestReceived"),
        audit_line("watch", "gpuunits"),
    ]
    log.path.write_text(before)
    start = log.position()
    log.path.write_text("".join([before, *asked]))
    end = log.position()
    log.path.write_text("".join([before, *asked, audit_line("delete", "services")]))

    found = count_writes(log.between(start, end))

    assert found == {"writes": 3, "status_writes": 1, "event_writes": 1, "refused_writes": 1}
    assert count_writes(log.between(0, log.position()))["writes"] == 5


def audit_line(
    verb: str,
    resource: str,
    *,
    subresource: str = "",
    user: str = "system:serviceaccount:bench:somebody",
    code: int = 200,
    stage: str = "ResponseComplete",
) -> str:
    line: dict[str, Any] = {
        "kind": "Event",
        "stage": stage,
        "verb": verb,
        "user": {"username": user},
        "objectRef": {"resource": resource, "subresource": subresource},
        "responseStatus": {"code": code},
    }
    return json.dumps(line, separators=(",", ":")) + "\n"


def test_a_difference_between_the_children_of_two_contenders_is_named() -> None:
    one = {"spec": {"ports": [{"port": 80}, {"port": 81}], "type": "ClusterIP"}, "labels": {"a": "b"}}
    other = {"spec": {"ports": [{"port": 80}, {"port": 82}], "type": "ClusterIP"}, "status": {}}

    assert list(differences(one, one)) == []
    assert list(differences(one, other)) == ["labels", "spec.ports[1].port", "status"]


@pytest.mark.parametrize(
    ("status", "observed", "expected"), [("True", 2, True), ("False", 2, False), ("True", 1, False)]
)
def test_a_unit_is_ready_if_its_status_is_ready_for_the_current_generation(
    status: str, observed: int, expected: bool
) -> None:
    condition = {"type": "Ready", "status": status, "observedGeneration": observed}

    assert is_ready({"metadata": {"generation": 2}, "status": {"conditions": [condition]}}) is expected
    assert not is_ready({"metadata": {"generation": 2}})


def test_the_scenarios_of_the_operator_are_listed() -> None:
    assert list(SCENARIOS) == ["converge-300", "converge-1000", "idle"]


@pytest.mark.parametrize("kind", ["library", "operator", "api"])
def test_the_help_of_each_bench_explains_the_exit_code(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([kind, "--help"])

    assert ended.value.code == 0
    assert "Exit code 1: a bar is not met" in " ".join(capsys.readouterr().out.split())
