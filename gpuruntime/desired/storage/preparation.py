"""What comes next in the preparation of a storage: one step at a time, from marks, Jobs, volume and source.

The truth is on the PersistentVolumeClaim, beside the data. A Job is created suspended, its UID is written into the
started mark, and only then it is resumed: no program runs without its mark, and the mark names the Job that runs.

| mark | Job of the attempt | then |
|---|---|---|
| none | none | lock the source, create the Job, suspended |
| none | there | write the started mark with its UID |
| started | suspended, never resumed | resume it: one write sets `suspend` and says that it was resumed |
| started | active, or suspended by another client | Running |
| started | Complete | write the prepared mark, then delete the Job and release the source |
| started | Failed | Failed: a recovery is required; the Job is kept for its logs |
| started | missing, or with another UID | Failed, PrepareOutcomeLost: a recovery is required |
| started, by a clone | - | Running until the volume is bound, then write the prepared mark |
| prepared | any | Succeeded for ever; the Jobs are deleted, and the source does not matter any more |

A recovery is asked for by a nonce that differs from that of the started mark. Where one is required, the storage is
free and no pod uses the volume, it is the next attempt: its Job is created, the mark replaced, the Job resumed.

What happens when the process ends, or works with an old view, after each write:

| after | then |
|---|---|
| the source is locked | the next run finds its lock, and goes on |
| the Job is created | the next run finds it by its name, which follows from storage, preparation and attempt |
| the started mark is written | the next run finds the Job with this UID, and resumes it |
| the Job is resumed | it runs; it is never resumed again |
| the prepared mark is written | the next run deletes the Job and releases the source |
| an old view creates a Job again | it stays suspended: the mark is a conditional write, and fails |
| the Job is deleted by another client | the outcome is lost; nothing runs again unasked |
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final, Literal

from attrs import field, frozen

from gpuruntime.api.reasons import (
    FOREIGN_OBJECT,
    PREPARE_FAILED,
    PREPARE_OUTCOME_LOST,
    PREPARE_PENDING,
    PREPARE_RUNNING,
    PREPARED_REASON,
)
from gpuruntime.desired.storage.marks import CLONE, Marks, Started
from gpuruntime.desired.storage.source import NO_SOURCE, Source

__all__ = [
    "FAILED",
    "NOT_REQUESTED",
    "PENDING",
    "RUNNING",
    "SUCCEEDED",
    "Action",
    "JobFacts",
    "Observation",
    "Preparation",
    "next_step",
]

NOT_REQUESTED: Final = "NotRequested"
PENDING: Final = "Pending"
RUNNING: Final = "Running"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"

Volume = Literal["bound", "late", "unbound"]
"""Bound; not bound, and waiting for a first pod; not bound for another reason."""


class Action(Enum):
    """One write."""

    NOTHING = "nothing"
    LOCK_SOURCE = "lock the source"
    CREATE_JOB = "create the Job, suspended"
    MARK_STARTED = "write the started mark"
    RESUME_JOB = "resume the Job"
    MARK_PREPARED = "write the prepared mark"


@frozen
class JobFacts:
    """A Job of a preparation.

    Args:
        is_ours: whether it was made for this very storage.
        was_resumed: whether it was resumed by us once.
        is_ending: whether it is being deleted.
        message: why it failed, or what it waits for.
    """

    name: str
    uid: str
    is_ours: bool = True
    is_suspended: bool = False
    was_resumed: bool = False
    is_complete: bool = False
    is_failed: bool = False
    is_ending: bool = False
    message: str = ""


@frozen
class Observation:
    """Everything that decides.

    Args:
        digest: that of the requested preparation.
        marks: those on the PersistentVolumeClaim.
        jobs: the Jobs of the attempt that the marks name, and of the one after it, by attempt.
        volume: whether the volume is bound.
        volume_message: why it is not.
        users: the living pods that use the volume, in words; "" if there are none.
        holder: who has the storage; "" if it is free.
        nonce: the recovery nonce on the storage.
    """

    digest: str
    marks: Marks = field(default=Marks())
    jobs: Mapping[int, JobFacts] = field(factory=dict)
    source: Source = NO_SOURCE
    volume: Volume = "bound"
    volume_message: str = ""
    users: str = ""
    holder: str = ""
    nonce: str = ""


@frozen
class Preparation:
    """How far a preparation is, and the next write.

    Args:
        attempts: the number of attempts so far.
        action, attempt, job_uid: the next write, and the attempt and the Job that it is about.
        keeps: the attempts whose Jobs are kept; all others are deleted.
        needs_source: whether the lock on the source is kept; else it is released.
    """

    phase: str
    reason: str
    message: str = ""
    attempts: int = 0
    recovery: str = "None"
    action: Action = Action.NOTHING
    attempt: int = 0
    job_uid: str = ""
    keeps: frozenset[int] = frozenset()
    needs_source: bool = True


def next_step(seen: Observation) -> Preparation:
    """The state of a preparation and its next step; see the tables of this module."""
    started = seen.marks.started
    if seen.marks.prepared:
        attempts = 1 if started is None else started.attempt
        recovery = "Succeeded" if attempts > 1 else "None"
        return Preparation(SUCCEEDED, PREPARED_REASON, "", attempts, recovery, needs_source=False)
    if started is None:
        return _begin(seen, 1, 0, frozenset({1}), "None")
    if started.job_uid == CLONE:
        return _cloning(seen, started)
    job = seen.jobs.get(started.attempt)
    if job is None or job.uid != started.job_uid:
        lost = "the Job is gone" if job is None else f"another Job has the name {job.name}"
        return _failed(
            seen, started, PREPARE_OUTCOME_LOST, f"{lost}, and whether it succeeded is unknown; recover the storage"
        )
    return _of_job(seen, started, job)


def _of_job(seen: Observation, started: Started, job: JobFacts) -> Preparation:
    attempts, keeps = started.attempt, frozenset({started.attempt})
    recovery = "Running" if attempts > 1 else "None"
    if job.is_complete:
        return Preparation(
            *(RUNNING, PREPARE_RUNNING, "The preparation is complete.", attempts, recovery),
            *(Action.MARK_PREPARED, attempts, job.uid, keeps),
        )
    if job.is_failed:
        return _failed(seen, started, PREPARE_FAILED, job.message or "the Job failed")
    if job.is_ending:
        words = "the Job is being deleted, and whether it succeeded is unknown; recover the storage"
        return _failed(seen, started, PREPARE_OUTCOME_LOST, words)
    if job.is_suspended and not job.was_resumed:
        waits = _obstacle(seen)
        if waits:
            return Preparation(PENDING, PREPARE_PENDING, waits, attempts, recovery, keeps=keeps)
        action = Action.RESUME_JOB if seen.source.is_locked else Action.LOCK_SOURCE
        return Preparation(PENDING, PREPARE_PENDING, "", attempts, recovery, action, attempts, job.uid, keeps)
    message = "the Job was suspended by another client; resume it" if job.is_suspended else job.message
    return Preparation(RUNNING, PREPARE_RUNNING, message, attempts, recovery, keeps=keeps)


def _begin(seen: Observation, attempt: int, attempts: int, keeps: frozenset[int], recovery: str) -> Preparation:
    """The steps up to the started mark of an attempt."""
    job = seen.jobs.get(attempt)
    if job is not None and not job.is_ours:
        message = f"Job {job.name} exists and is not of this storage; not modified: delete it"
        return Preparation(PENDING, FOREIGN_OBJECT, message, attempts, recovery, keeps=keeps)
    waits = _obstacle(seen) or ("the Job is being deleted" if job is not None and job.is_ending else "")
    if waits:
        return Preparation(PENDING, PREPARE_PENDING, waits, attempts, recovery, keeps=keeps)
    if not seen.source.is_locked:
        action = Action.LOCK_SOURCE
    elif job is None:
        action = Action.CREATE_JOB
    else:
        action = Action.MARK_STARTED
    uid = "" if job is None else job.uid
    return Preparation(PENDING, PREPARE_PENDING, "", attempts, recovery, action, attempt, uid, keeps)


def _obstacle(seen: Observation) -> str:
    """Why no program can run now, "" if one can."""
    if seen.volume == "unbound":
        return f"waiting for the volume: {seen.volume_message}"
    if seen.users:
        return f"waiting until the volume is not in use: {seen.users}"
    return seen.source.blocked


def _cloning(seen: Observation, started: Started) -> Preparation:
    if seen.volume == "bound":
        action, message = Action.MARK_PREPARED, "The volume is cloned."
    else:
        action, message = Action.NOTHING, f"the volume is being cloned: {seen.volume_message}"
    return Preparation(
        RUNNING, PREPARE_RUNNING, message, started.attempt, action=action, attempt=started.attempt, job_uid=CLONE
    )


def _failed(seen: Observation, started: Started, reason: str, message: str) -> Preparation:
    attempts = started.attempt
    if seen.nonce and seen.nonce != started.nonce:
        if not seen.holder:
            return _begin(seen, attempts + 1, attempts, frozenset({attempts, attempts + 1}), "Running")
        message = f"{message} (the recovery waits until {seen.holder} releases the storage)"
    keeps = frozenset({attempts})
    # A pod of a lost Job may still read from the source.
    return Preparation(
        FAILED, reason, message, attempts, "Required", attempt=attempts, keeps=keeps, needs_source=bool(seen.users)
    )
