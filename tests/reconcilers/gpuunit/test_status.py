"""The status of a unit: one row a finding."""

from datetime import UTC, datetime, timedelta

import pytest
from attrs import evolve

from gpuruntime.api import reasons
from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec, GPUUnitStatus, UnitStages
from gpuruntime.api.names import CLAIM_ID
from gpuruntime.kube.builtin.apps import Deployment, DeploymentSpec, DeploymentStatus
from gpuruntime.kube.builtin.pods import PodTemplateSpec
from gpuruntime.meta.conditions import Condition
from gpuruntime.meta.frozen_mapping import FrozenDict
from gpuruntime.meta.label_selectors import LabelSelector
from gpuruntime.meta.objects import ObjectMeta
from gpuruntime.reconcilers.gpuunit.status import Findings, SyncFailure, can_wait, judge, transition
from gpuruntime.reconcilers.pod_summary import ContainerSummary, Ending, PodSummary
from gpuruntime.service.reads.informers import NodeSummary

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
UNIT = GPUUnit(ObjectMeta(name="a", namespace="apps", generation=4), GPUUnitSpec("g1.1"))
ROLLED_OUT = DeploymentStatus(
    observed_generation=7, replicas=1, updated_replicas=1, ready_replicas=1, available_replicas=1
)
POD = PodSummary(
    "unit-a-1-x",
    controller="unit-a-1",
    node="gpu-1",
    phase="Running",
    scheduled_at="2026-01-01T00:00:01Z",
    is_ready=True,
    ready_at="2026-01-01T00:00:03Z",
    containers=(ContainerSummary("runtime-worker", started_at="2026-01-01T00:00:02Z", is_ready=True),),
)


def findings(status: DeploymentStatus | None, failure: SyncFailure | None = None, *pods: PodSummary) -> Findings:
    spec = DeploymentSpec(LabelSelector(), PodTemplateSpec(), replicas=1)
    made = None if status is None else Deployment(ObjectMeta(name="unit-a", generation=7), spec, status)
    nodes = {"gpu-1": NodeSummary(is_ready=True)}
    return Findings(made, pods, nodes, {}, "unit-a", "http://unit-a.apps.svc.cluster.local:80", failure)


def unit_status(unit: GPUUnit, found: Findings, *, is_stock: bool, now: datetime) -> GPUUnitStatus:
    return judge(unit, found, is_stock=is_stock, now=now).status


def reported(status: GPUUnitStatus) -> tuple[str | None, str, str]:
    (condition,) = status.conditions
    return status.phase, condition.status, condition.reason


def test_a_unit_that_is_ready_says_everything_there_is_to_say() -> None:
    status = unit_status(UNIT, findings(ROLLED_OUT, None, POD), is_stock=False, now=NOW)

    assert status == GPUUnitStatus(
        phase="Ready",
        ready_replicas=1,
        observed_generation=4,
        last_sync_time="2026-01-01T00:00:00Z",
        service_name="unit-a",
        access_url="http://unit-a.apps.svc.cluster.local:80",
        stages=UnitStages("2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z", "2026-01-01T00:00:03Z"),
        conditions=(
            Condition(
                "Ready",
                "True",
                "UnitReady",
                "GPU unit runtime is ready.",
                "2026-01-01T00:00:00Z",
                observed_generation=4,
            ),
        ),
    )


@pytest.mark.parametrize(
    ("found", "is_stock", "expected"),
    [
        (findings(None), False, ("Progressing", "False", reasons.UNIT_PROGRESSING)),
        (findings(None), True, ("Progressing", "False", reasons.STOCK_NOT_READY)),
        (findings(DeploymentStatus()), False, ("Progressing", "False", reasons.UNIT_PROGRESSING)),
        (findings(ROLLED_OUT, None, POD), False, ("Ready", "True", reasons.UNIT_READY)),
        (findings(ROLLED_OUT, None, POD), True, ("Ready", "True", reasons.STOCK_READY)),
        (
            findings(ROLLED_OUT, SyncFailure("x", reasons.INVALID_SPEC)),
            False,
            ("Failed", "False", reasons.INVALID_SPEC),
        ),
        (
            findings(ROLLED_OUT, SyncFailure("x", reasons.FOREIGN_OBJECT)),
            True,
            ("Failed", "False", reasons.FOREIGN_OBJECT),
        ),
        (findings(ROLLED_OUT, SyncFailure("busy")), False, ("Progressing", "False", reasons.UNIT_PROGRESSING)),
        (findings(ROLLED_OUT, SyncFailure("busy")), True, ("Progressing", "False", reasons.STOCK_NOT_READY)),
        (
            findings(
                evolve(ROLLED_OUT, available_replicas=0), None, evolve(POD, node="", unscheduled="0/4 are available")
            ),
            False,
            ("Progressing", "False", reasons.UNSCHEDULABLE),
        ),
    ],
)
def test_phase_and_condition_follow_the_findings(
    found: Findings, is_stock: bool, expected: tuple[str, str, str]
) -> None:
    assert reported(unit_status(UNIT, found, is_stock=is_stock, now=NOW)) == expected


def test_a_claimed_stock_unit_is_not_ready() -> None:
    claimed = evolve(UNIT, metadata=evolve(UNIT.metadata, annotations=FrozenDict({CLAIM_ID: "order-7"})))

    status = unit_status(claimed, findings(ROLLED_OUT, None, POD), is_stock=True, now=NOW)

    assert reported(status) == ("Progressing", "False", reasons.STOCK_CLAIMED)
    assert "order-7" in (status.conditions[0].message or "")


def test_an_unchanged_world_leaves_the_status_as_it_is() -> None:
    found = findings(ROLLED_OUT, None, POD)
    before = unit_status(UNIT, found, is_stock=False, now=NOW)

    after = unit_status(evolve(UNIT, status=before), found, is_stock=False, now=LATER)

    assert after is before


def test_the_time_of_a_condition_moves_with_its_status_and_that_of_the_unit_with_any_change() -> None:
    before = unit_status(UNIT, findings(DeploymentStatus()), is_stock=False, now=NOW)

    after = unit_status(
        evolve(UNIT, status=before), findings(None, SyncFailure("x", reasons.INVALID_SPEC)), is_stock=False, now=LATER
    )

    assert after.last_sync_time == "2026-01-01T01:00:00Z"
    assert after.conditions[0].last_transition_time == "2026-01-01T00:00:00Z"


def test_what_could_not_be_synced_is_not_observed_though_the_condition_talks_about_it() -> None:
    before = unit_status(UNIT, findings(ROLLED_OUT, None, POD), is_stock=False, now=NOW)
    changed = evolve(UNIT, metadata=evolve(UNIT.metadata, generation=5), status=before)

    after = unit_status(
        changed, findings(ROLLED_OUT, SyncFailure("x", reasons.INVALID_SPEC), POD), is_stock=False, now=LATER
    )

    assert after.observed_generation == 4
    assert after.conditions[0].observed_generation == 5
    assert (after.ready_replicas, after.stages) == (1, before.stages)


@pytest.mark.parametrize(
    ("before", "after", "is_news"),
    [
        (None, reasons.UNIT_PROGRESSING, False),
        (None, reasons.STOCK_NOT_READY, False),
        (None, reasons.UNSCHEDULABLE, True),
        (None, reasons.INVALID_SPEC, True),
        (reasons.UNIT_PROGRESSING, reasons.UNIT_READY, True),
        (reasons.UNIT_READY, reasons.UNIT_PROGRESSING, True),
        (reasons.CRASH_LOOPING, reasons.CRASH_LOOPING, False),
    ],
)
def test_another_reason_is_news_and_another_wording_is_not(before: str | None, after: str, is_news: bool) -> None:
    old = () if before is None else (Condition("Ready", "False", before, "then"),)
    new = Condition("Ready", "False", after, "now")

    found = transition(GPUUnitStatus(conditions=old), GPUUnitStatus(conditions=(new,)))

    assert found == (new if is_news else None)


WAITING = unit_status(UNIT, findings(DeploymentStatus()), is_stock=False, now=NOW)


@pytest.mark.parametrize(
    ("found", "age", "seconds"),
    [
        (findings(DeploymentStatus(observed_generation=7)), 1, 2.0),
        (
            findings(DeploymentStatus(observed_generation=7, updated_replicas=1), None, evolve(POD, phase="Pending")),
            2,
            1.0,
        ),
        (findings(DeploymentStatus(observed_generation=7)), 3, 0.0),
        (findings(DeploymentStatus(observed_generation=7)), 7200, 0.0),
        # A clock that is ahead of ours reported the time.
        (findings(DeploymentStatus(observed_generation=7)), -60, 0.0),
        # News.
        (findings(ROLLED_OUT, None, POD), 1, 0.0),
        (findings(None, SyncFailure("x", reasons.INVALID_SPEC)), 1, 0.0),
        (evolve(findings(DeploymentStatus(observed_generation=7)), access_url=None), 1, 0.0),
    ],
)
def test_the_steps_of_a_start_are_written_together_and_transitions_at_once(
    found: Findings, age: int, seconds: float
) -> None:
    now = NOW + timedelta(seconds=age)

    after = unit_status(evolve(UNIT, status=WAITING), found, is_stock=False, now=now)

    assert after != WAITING
    assert can_wait(WAITING, after, now) == seconds


def test_the_first_status_of_a_unit_is_written_at_once() -> None:
    assert can_wait(GPUUnitStatus(), WAITING, NOW) == 0.0


LOOPING = evolve(
    POD,
    containers=(
        ContainerSummary(
            "runtime-worker",
            started_at="2026-01-01T00:59:58Z",
            is_ready=True,
            restarts=3,
            ended_before=Ending(1, message="no model", seconds=4.0),
        ),
    ),
)
WAITING_TO_RESTART = evolve(
    POD,
    is_ready=False,
    ready_at="",
    containers=(
        ContainerSummary(
            "runtime-worker",
            restarts=2,
            waiting_reason="CrashLoopBackOff",
            waiting_message="back-off 20s",
            ended_before=Ending(1, message="no model", seconds=4.0),
        ),
    ),
)


@pytest.mark.parametrize("is_stock", [False, True])
def test_a_round_of_a_crash_loop_is_one_status_and_never_ready(is_stock: bool) -> None:
    down = findings(evolve(ROLLED_OUT, ready_replicas=0, available_replicas=0), None, WAITING_TO_RESTART)
    before = unit_status(UNIT, down, is_stock=is_stock, now=NOW)
    crashing = evolve(UNIT, status=before)

    up = judge(crashing, findings(ROLLED_OUT, None, LOOPING), is_stock=is_stock, now=LATER)

    assert reported(before) == ("Failed", "False", reasons.CRASH_LOOPING)
    assert before.stages == UnitStages(scheduled="2026-01-01T00:00:01Z")
    assert up.status is before
    assert up.recheck_seconds == 38.0


def test_a_unit_that_stayed_up_is_ready_again_with_its_times() -> None:
    later = LATER + timedelta(seconds=38)

    verdict = judge(UNIT, findings(ROLLED_OUT, None, LOOPING), is_stock=False, now=later)

    assert reported(verdict.status) == ("Ready", "True", reasons.UNIT_READY)
    assert verdict.status.stages == UnitStages("2026-01-01T00:00:01Z", "2026-01-01T00:59:58Z", "2026-01-01T00:00:03Z")
    assert verdict.recheck_seconds is None
