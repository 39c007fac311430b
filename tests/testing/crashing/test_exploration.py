"""The kit on a real API server: a correct operator passes, and each flaw is found by the plan for it."""

import asyncio
from pathlib import Path

import pytest
from attrs import evolve

from gpuruntime.kube.builtin.core import Secret
from gpuruntime.testing import AuditLog, ClusterAccess
from gpuruntime.testing.crashing import (
    Launch,
    Moment,
    Operator,
    Report,
    Stage,
    UnusableScenarioError,
    everything,
    explore,
    only,
    sample,
)
from gpuruntime.testing.crashing.reports import PLANS_VARIABLE
from tests.testing.crashing.toy_operators import (
    CACHE_SECONDS,
    Correct,
    ForgetsOnRestart,
    NamesRandomly,
    RecordsTooLate,
    TemporarySurplus,
    TrustsItsCache,
    children_scenario,
    toy,
)

# A flaw is found when the timeout expires; a run without one takes about a second and a half.
SHORT = children_scenario(timeout=16.0)


def failed(report: Report) -> list[str]:
    return [str(verdict.plan) for verdict in report.failures]


async def test_a_correct_operator_passes_a_sample_of_all_types(kube_cluster: ClusterAccess, tmp_path: Path) -> None:
    scenario = children_scenario()

    report = await explore(scenario, toy(Correct), kube_cluster, tmp_path, plans=sample(10), max_parallel=4, environ={})

    report.check()
    assert [str(write) for write in report.trace.writes] == [
        "POST secrets parent-0",
        "PATCH configmaps parent",
        "POST secrets parent-1",
        "PATCH configmaps parent",
    ]
    assert len(report.verdicts) == 12
    assert report.not_triggered == ()


@pytest.mark.soak
@pytest.mark.timeout(1200)
async def test_a_correct_operator_passes_every_plan(kube_cluster: ClusterAccess, tmp_path: Path) -> None:
    scenario = children_scenario()

    report = await explore(scenario, toy(Correct), kube_cluster, tmp_path, plans=everything, max_parallel=4, environ={})

    report.check()
    assert len(report.verdicts) > 40


@pytest.mark.parametrize(
    ("operator", "found_by", "said"),
    [
        (toy(NamesRandomly), "undisturbed", "0 instead of 1"),
        (toy(RecordsTooLate), "crash-after-write:1", "Secret <main>/child-*: 3 instead of 2"),
        (toy(RecordsTooLate), "crash-after-write:1:unanswered", "Secret <main>/child-*: 3 instead of 2"),
        (toy(Correct, edge_triggered=True), "crash-before-write:2", "not settled and idle within 16 s"),
        (toy(ForgetsOnRestart), "second-pass", "unnecessary write in the second pass: PATCH configmaps parent"),
    ],
    ids=["names", "late record", "late record, no answer", "edges", "memory"],
)
async def test_a_flaw_is_found_by_the_plan_for_it(
    kube_cluster: ClusterAccess, tmp_path: Path, operator: Operator, found_by: str, said: str
) -> None:
    plans = only(found_by, *(["undisturbed"] if found_by != "undisturbed" else []))

    report = await explore(SHORT, operator, kube_cluster, tmp_path, plans=plans, max_parallel=2, environ={})

    assert failed(report) == [found_by]
    assert said in str(report)
    with pytest.raises(AssertionError, match="1 fail"):
        report.check()


async def test_an_operator_that_trusts_its_cache_is_found_by_holding_back_events(
    kube_cluster: ClusterAccess, tmp_path: Path
) -> None:
    # The events are held back for longer than the operator waits for them, and otherwise come much sooner.
    scenario = evolve(SHORT, idle_seconds=2 * CACHE_SECONDS)
    plans = only("stale-cache:secrets", "undisturbed")

    report = await explore(
        scenario, toy(TrustsItsCache, journal=False), kube_cluster, tmp_path, plans=plans, max_parallel=2, environ={}
    )

    assert failed(report) == ["stale-cache:secrets"]
    assert "instead of 2" in str(report)


async def test_a_short_violation_of_the_invariant_is_found(kube_cluster: ClusterAccess, tmp_path: Path) -> None:
    def too_many(moment: Moment) -> str | None:
        count = sum(secret.metadata.name.startswith("spare") for secret in moment.world.list(Secret))
        return f"{count} spare child" if count else None

    scenario = evolve(SHORT, invariant=too_many)

    report = await explore(
        scenario, toy(TemporarySurplus), kube_cluster, tmp_path, plans=only("undisturbed"), environ={}
    )

    (verdict,) = report.failures
    assert (verdict.same, verdict.violations) == (True, ("1 spare child",))


async def test_a_violation_in_the_reference_run_only_is_found(kube_cluster: ClusterAccess, tmp_path: Path) -> None:
    runs: list[str] = []

    def of_the_first_run(moment: Moment) -> str | None:
        runs.append(moment.world.namespaces["main"])
        return "broken at first" if runs[-1] == runs[0] else None

    report = await explore(
        evolve(SHORT, invariant=of_the_first_run),
        toy(Correct),
        kube_cluster,
        tmp_path,
        plans=only("undisturbed", "second-pass"),
        environ={},
    )

    (verdict,) = report.failures
    assert (str(verdict.plan), verdict.violations) == ("undisturbed", ("broken at first",))
    assert len(set(runs)) == 3


async def test_the_environment_variable_reruns_one_plan(kube_cluster: ClusterAccess, tmp_path: Path) -> None:
    environ = {PLANS_VARIABLE: "crash-before-write:1,undisturbed", "PYTEST_CURRENT_TEST": "test_a.py::test_b (call)"}

    report = await explore(children_scenario(), toy(Correct), kube_cluster, tmp_path, max_parallel=2, environ=environ)

    assert [(str(verdict.plan), verdict.triggered) for verdict in report.verdicts] == [
        ("crash-before-write:1", True),
        ("undisturbed", True),
    ]
    assert (
        report.rerun_command(report.verdicts[0].plan)
        == f"{PLANS_VARIABLE}=crash-before-write:1 python -m pytest test_a.py::test_b"
    )


async def test_a_plan_that_was_not_triggered_is_listed_as_such(kube_cluster: ClusterAccess, tmp_path: Path) -> None:
    plans = only("crash-after-write:99", "fail:500:DELETE secrets #1")

    report = await explore(children_scenario(), toy(Correct), kube_cluster, tmp_path, plans=plans, environ={})

    assert (report.failures, len(report.not_triggered)) == ((), 2)
    assert "not triggered: crash-after-write:99, fail:500:DELETE secrets #1" in str(report)


def accounts_in(directory: Path) -> set[str]:
    """The accounts of the operators of one exploration: other tests explore at the same time."""
    return {kubeconfig.stem for kubeconfig in directory.glob("run-*/*.kubeconfig")}


async def test_the_writes_of_a_run_are_those_of_the_audit_log(
    kube_cluster: ClusterAccess, kube_audit: AuditLog, tmp_path: Path
) -> None:
    with kube_audit.recording() as seen:
        report = await explore(
            children_scenario(), toy(Correct), kube_cluster, tmp_path, plans=only("second-pass"), environ={}
        )

    mine = [write for write in seen.writes() if write.user.rpartition(":")[2] in accounts_in(tmp_path)]
    accounts = {write.user for write in mine}
    report.check()
    assert len(accounts) == 2
    assert len(mine) == len(report.trace.writes) + report.verdicts[0].writes


async def test_an_operator_that_exits_or_does_nothing_in_the_reference_run_cannot_be_tested(
    kube_cluster: ClusterAccess, tmp_path: Path
) -> None:
    async def fail(_launch: Launch) -> None:
        raise RuntimeError("no licence")

    async def idle(_launch: Launch) -> None:
        await asyncio.Event().wait()

    async def do_nothing(_stage: Stage) -> None:
        pass

    scenario = evolve(SHORT, timeout=1.0)
    nothing_to_do = evolve(SHORT, act=do_nothing, settled=lambda _: True)

    with pytest.raises(UnusableScenarioError, match="RuntimeError: no licence"):
        await explore(scenario, fail, kube_cluster, tmp_path, environ={})
    with pytest.raises(UnusableScenarioError, match="1 s"):
        await explore(scenario, idle, kube_cluster, tmp_path, environ={})
    with pytest.raises(UnusableScenarioError, match="wrote nothing"):
        await explore(nothing_to_do, toy(Correct), kube_cluster, tmp_path, environ={})
