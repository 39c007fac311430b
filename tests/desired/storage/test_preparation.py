"""The table of preparations: every state has one next step."""

from typing import Any

import pytest
from attrs import evolve

from gpuruntime.api import reasons
from gpuruntime.desired.storage.marks import CLONE, Marks, Started
from gpuruntime.desired.storage.preparation import Action, JobFacts, Observation, next_step
from gpuruntime.desired.storage.source import Source

NONE = Marks()
STARTED = Marks(Started("d", 1, "job-1", "n1"))
PREPARED = Marks(Started("d", 1, "job-1"), "d")
CLONING = Marks(Started("d", 1, CLONE))
NEW = JobFacts("prepare-1", "job-1", is_suspended=True)
RESUMED = JobFacts("prepare-1", "job-1", was_resumed=True)
DONE = evolve(RESUMED, is_complete=True)
FAILED = evolve(RESUMED, is_failed=True, message="exit code 3")
SECOND = JobFacts("prepare-2", "job-2", is_suspended=True)
FREE = Source(is_locked=False)
BUSY = Source("in use by gpuunits/demo", is_locked=False)


@pytest.mark.parametrize(
    ("marks", "jobs", "more", "expected"),
    [
        (NONE, {}, {}, ("Pending", reasons.PREPARE_PENDING, Action.CREATE_JOB, 1)),
        (NONE, {}, {"source": FREE}, ("Pending", reasons.PREPARE_PENDING, Action.LOCK_SOURCE, 1)),
        (NONE, {}, {"source": BUSY}, ("Pending", reasons.PREPARE_PENDING, Action.NOTHING, 0)),
        (NONE, {}, {"volume": "unbound"}, ("Pending", reasons.PREPARE_PENDING, Action.NOTHING, 0)),
        (NONE, {}, {"volume": "late"}, ("Pending", reasons.PREPARE_PENDING, Action.CREATE_JOB, 1)),
        (NONE, {}, {"users": "pod x"}, ("Pending", reasons.PREPARE_PENDING, Action.NOTHING, 0)),
        (NONE, {1: NEW}, {}, ("Pending", reasons.PREPARE_PENDING, Action.MARK_STARTED, 1)),
        (NONE, {1: DONE}, {}, ("Pending", reasons.PREPARE_PENDING, Action.MARK_STARTED, 1)),
        (NONE, {1: evolve(NEW, is_ending=True)}, {}, ("Pending", reasons.PREPARE_PENDING, Action.NOTHING, 0)),
        (NONE, {1: evolve(NEW, is_ours=False)}, {}, ("Pending", reasons.FOREIGN_OBJECT, Action.NOTHING, 0)),
        (STARTED, {1: NEW}, {}, ("Pending", reasons.PREPARE_PENDING, Action.RESUME_JOB, 1)),
        (STARTED, {1: NEW}, {"source": FREE}, ("Pending", reasons.PREPARE_PENDING, Action.LOCK_SOURCE, 1)),
        (STARTED, {1: NEW}, {"source": BUSY}, ("Pending", reasons.PREPARE_PENDING, Action.NOTHING, 0)),
        (STARTED, {1: RESUMED}, {}, ("Running", reasons.PREPARE_RUNNING, Action.NOTHING, 0)),
        (STARTED, {1: evolve(RESUMED, is_suspended=True)}, {}, ("Running", "PrepareRunning", Action.NOTHING, 0)),
        (STARTED, {1: DONE}, {}, ("Running", reasons.PREPARE_RUNNING, Action.MARK_PREPARED, 1)),
        (STARTED, {1: FAILED}, {}, ("Failed", reasons.PREPARE_FAILED, Action.NOTHING, 1)),
        (STARTED, {1: FAILED}, {"nonce": "n1"}, ("Failed", reasons.PREPARE_FAILED, Action.NOTHING, 1)),
        (STARTED, {}, {}, ("Failed", reasons.PREPARE_OUTCOME_LOST, Action.NOTHING, 1)),
        (STARTED, {1: evolve(NEW, uid="other")}, {}, ("Failed", "PrepareOutcomeLost", Action.NOTHING, 1)),
        (STARTED, {1: evolve(RESUMED, is_ending=True)}, {}, ("Failed", "PrepareOutcomeLost", Action.NOTHING, 1)),
        (STARTED, {1: FAILED}, {"nonce": "n2"}, ("Pending", reasons.PREPARE_PENDING, Action.CREATE_JOB, 2)),
        (STARTED, {}, {"nonce": "n2"}, ("Pending", reasons.PREPARE_PENDING, Action.CREATE_JOB, 2)),
        (STARTED, {1: FAILED}, {"nonce": "n2", "holder": "gpuunits/x"}, ("Failed", "PrepareFailed", Action.NOTHING, 1)),
        (STARTED, {}, {"nonce": "n2", "users": "pod x"}, ("Pending", "PreparePending", Action.NOTHING, 0)),
        (STARTED, {1: FAILED, 2: SECOND}, {"nonce": "n2"}, ("Pending", "PreparePending", Action.MARK_STARTED, 2)),
        (STARTED, {1: RESUMED}, {"nonce": "n2"}, ("Running", reasons.PREPARE_RUNNING, Action.NOTHING, 0)),
        (CLONING, {}, {"volume": "unbound"}, ("Running", reasons.PREPARE_RUNNING, Action.NOTHING, 1)),
        (CLONING, {}, {"source": BUSY}, ("Running", reasons.PREPARE_RUNNING, Action.MARK_PREPARED, 1)),
        (PREPARED, {}, {"source": BUSY, "nonce": "n2"}, ("Succeeded", reasons.PREPARED_REASON, Action.NOTHING, 0)),
        (PREPARED, {1: FAILED}, {"volume": "unbound"}, ("Succeeded", reasons.PREPARED_REASON, Action.NOTHING, 0)),
    ],
)
def test_each_state_has_one_next_step(
    marks: Marks, jobs: dict[int, JobFacts], more: dict[str, Any], expected: tuple[str, str, Action, int]
) -> None:
    plan = next_step(Observation("d", marks, jobs, **more))

    assert (plan.phase, plan.reason, plan.action, plan.attempt) == expected


@pytest.mark.parametrize(
    ("marks", "jobs", "more", "keeps", "needs_source"),
    [
        (NONE, {1: NEW}, {}, {1}, True),
        (STARTED, {1: RESUMED}, {}, {1}, True),
        (STARTED, {1: FAILED}, {}, {1}, False),
        (STARTED, {}, {"users": "pod x"}, {1}, True),
        (STARTED, {1: FAILED}, {"nonce": "n2"}, {1, 2}, True),
        (PREPARED, {1: DONE}, {}, set(), False),
    ],
)
def test_jobs_and_source_are_kept_as_long_as_they_are_needed(
    marks: Marks, jobs: dict[int, JobFacts], more: dict[str, Any], keeps: set[int], needs_source: bool
) -> None:
    plan = next_step(Observation("d", marks, jobs, **more))

    assert (set(plan.keeps), plan.needs_source) == (keeps, needs_source)


def test_marks_that_cannot_be_read_are_attempts_whose_job_is_unknown() -> None:
    texts = ["", "d", "d/x/uid/", "d/2/uid", "d/²/uid/n"]

    plans = [next_step(Observation("d", Marks.of({"runtime.lokiwager.io/prepare-started": text}))) for text in texts]

    assert {plan.reason for plan in plans} == {reasons.PREPARE_OUTCOME_LOST}


def test_a_mark_keeps_a_nonce_with_slashes() -> None:
    mark = Started("d", 12, "uid", "order/7/x")

    assert Marks.of({"runtime.lokiwager.io/prepare-started": str(mark)}).started == mark
