"""Preparations in every order of events: nothing runs unasked, twice, or without its mark.

All orders of these events are explored: the process acts with the newest view, or with an old one (another took over, a
cache lags), programs end, a Job is deleted by others, a recovery is asked for, the lock is lost. Only the number of
recoveries, deletions and acts with an old view is limited.
"""

from collections.abc import Iterator
from typing import Self

from attrs import evolve, field, frozen

from gpuruntime.desired.storage.marks import Marks, Started
from gpuruntime.desired.storage.preparation import Action, JobFacts, Observation, Preparation, next_step
from gpuruntime.desired.storage.source import Source

RECOVERIES = 2
DELETIONS = 1
OLD_VIEWS = 1
MOST_WORLDS = 100_000
Jobs = tuple[tuple[int, JobFacts], ...]


@frozen
class View:
    """What a process knows, and the version of the marks in it."""

    marks: Marks
    version: int
    jobs: Jobs
    is_locked: bool
    nonce: str
    is_used: bool

    def plan(self) -> Preparation:
        source, users = Source(is_locked=self.is_locked), "a pod" if self.is_used else ""
        return next_step(Observation("d", self.marks, dict(self.jobs), source, users=users, nonce=self.nonce))


@frozen
class World:
    """What the API server has: conditional writes, and Jobs with one name for each attempt.

    `ran` are the Jobs that ran, with their attempts; `pods` the Jobs whose pods still run; `faults` what must not be.
    """

    marks: Marks = field(factory=Marks)
    version: int = 0
    jobs: Jobs = ()
    is_locked: bool = False
    asked: int = 0
    deleted: int = 0
    serial: int = 0
    ran: tuple[tuple[int, str], ...] = ()
    pods: frozenset[str] = frozenset()
    faults: tuple[str, ...] = ()
    old: View | None = None
    old_acts: int = 0

    @property
    def nonce(self) -> str:
        return f"n{self.asked}" if self.asked else ""

    def view(self) -> View:
        return View(self.marks, self.version, self.jobs, self.is_locked, self.nonce, bool(self.pods))

    def next_worlds(self) -> Iterator["World"]:
        """The worlds after each event that can happen."""
        yield self.acted(self.view())
        if self.old is None and self.old_acts < OLD_VIEWS:
            yield evolve(self, old=self.view())
        if self.old is not None:
            # The view is used once: after it, the process has read its own writes, or died.
            yield evolve(self.acted(self.old), old=None, old_acts=self.old_acts + 1)
        for attempt, job in self.jobs:
            if job.uid in self.pods:
                over = evolve(self, pods=self.pods - {job.uid})
                yield over.with_job(attempt, evolve(job, is_complete=True))
                yield over.with_job(attempt, evolve(job, is_failed=True))
            if self.deleted < DELETIONS:
                # Its pod goes on for a while.
                yield evolve(self.without_job(attempt), deleted=self.deleted + 1)
        yield evolve(self, pods=self.pods & {job.uid for _, job in self.jobs})
        yield evolve(self, is_locked=False)
        if self.asked < RECOVERIES:
            yield evolve(self, asked=self.asked + 1)

    def acted(self, view: View) -> "World":
        """One run of the process with a view."""
        plan, world = view.plan(), self
        for attempt, job in view.jobs:
            if attempt not in plan.keeps and (attempt, job) in world.jobs:
                world = evolve(world.without_job(attempt), pods=world.pods - {job.uid})
        if not plan.needs_source:
            world = evolve(world, is_locked=False)
        is_current, known = view.version == world.version, dict(world.jobs)
        match plan.action:
            case Action.LOCK_SOURCE:
                return evolve(world, is_locked=True)
            case Action.CREATE_JOB if plan.attempt not in known:
                job = JobFacts(f"prepare-{plan.attempt}", f"job-{world.serial}", is_suspended=True)
                return evolve(world.with_job(plan.attempt, job), serial=world.serial + 1)
            case Action.MARK_STARTED if is_current:
                mark = Started("d", plan.attempt, plan.job_uid, view.nonce)
                return evolve(world, marks=Marks(mark, world.marks.prepared), version=world.version + 1)
            case Action.MARK_PREPARED if is_current:
                return evolve(world, marks=evolve(world.marks, prepared="d"), version=world.version + 1)
            case Action.RESUME_JOB if known.get(plan.attempt) == dict(view.jobs).get(plan.attempt):
                return world.resumed(plan.attempt, known[plan.attempt])
        return world

    def resumed(self, attempt: int, job: JobFacts) -> "World":
        started, faults = self.marks.started, list(self.faults)
        if started is None or (started.attempt, started.job_uid) != (attempt, job.uid):
            faults.append("a program runs without its mark")
        if self.marks.prepared:
            faults.append("a program runs after a success")
        if self.pods:
            faults.append("two programs run at a time")
        if attempt in dict(self.ran):
            faults.append("an attempt runs twice")
        if len(self.ran) > self.asked:
            faults.append("a program runs unasked")
        return evolve(
            self.with_job(attempt, evolve(job, is_suspended=False, was_resumed=True)),
            ran=(*self.ran, (attempt, job.uid)),
            pods=self.pods | {job.uid},
            faults=tuple(faults),
        )

    def with_job(self, attempt: int, job: JobFacts) -> Self:
        return evolve(self, jobs=tuple(sorted({**dict(self.jobs), attempt: job}.items(), key=lambda item: item[0])))

    def without_job(self, attempt: int) -> Self:
        return evolve(self, jobs=tuple(item for item in self.jobs if item[0] != attempt))


def test_in_every_order_of_events_a_program_runs_only_when_asked_and_with_its_mark() -> None:
    first = World()
    seen, waiting = {first}, [first]

    while waiting:
        world = waiting.pop()
        for after in world.next_worlds():
            assert after.faults == ()
            assert not world.marks.prepared or after.marks.prepared
            assert len(seen) < MOST_WORLDS
            if after not in seen:
                seen.add(after)
                waiting.append(after)

    assert max(len(world.ran) for world in seen) == RECOVERIES + 1
    assert any(world.marks.prepared for world in seen)


def test_from_every_state_a_process_that_goes_on_comes_to_rest() -> None:
    first = World()
    seen, waiting = {first}, [first]
    while waiting:
        for after in waiting.pop().next_worlds():
            settled = evolve(after, old=None)
            if settled not in seen:
                seen.add(settled)
                waiting.append(settled)

    for world in seen:
        rest = world
        for _ in range(12):
            rest = rest.acted(rest.view())
        plan = rest.view().plan()

        assert rest == rest.acted(rest.view())
        assert plan.phase != "Succeeded" or (rest.jobs, rest.is_locked) == ((), False)
        assert plan.action is Action.NOTHING
