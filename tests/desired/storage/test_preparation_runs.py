"""Preparations in every order of events, with crashes and old views: nothing runs unasked, twice, or unmarked."""

from attrs import define, evolve, field
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuruntime.desired.storage.marks import Marks, Started
from gpuruntime.desired.storage.preparation import Action, JobFacts, Observation, next_step
from gpuruntime.desired.storage.source import Source

OFTEN = ["look", "act"] * 3
EVENTS = [*OFTEN, "complete", "fail", "delete job", "recover", "unlock", "pod ends"]


@define
class Server:
    """What the API server has: conditional writes, and Jobs with one name for each attempt."""

    marks: Marks = field(factory=Marks)
    version: int = 0
    jobs: dict[int, JobFacts] = field(factory=dict)
    locked: bool = False
    nonce: str = ""
    serial: int = 0
    asked: int = 1
    ran: list[tuple[int, str]] = field(factory=list)
    running: set[str] = field(factory=set)
    faults: list[str] = field(factory=list)

    def seen(self) -> tuple[Observation, int, dict[int, JobFacts]]:
        """A view, and the versions of what it shows."""
        users = "a pod" if self.running else ""
        observation = Observation(
            "d", self.marks, dict(self.jobs), Source(is_locked=self.locked), users=users, nonce=self.nonce
        )
        return observation, self.version, dict(self.jobs)

    def act(self, view: tuple[Observation, int, dict[int, JobFacts]]) -> None:
        """One run with a view, which may be old."""
        observation, version, jobs = view
        plan = next_step(observation)
        is_current = version == self.version
        for attempt, job in list(jobs.items()):
            if attempt not in plan.keeps and self.jobs.get(attempt) == job:
                del self.jobs[attempt]
                self.running.discard(job.uid)
        attempt = plan.attempt
        match plan.action:
            case Action.LOCK_SOURCE:
                self.locked = True
            case Action.CREATE_JOB if attempt not in self.jobs:
                self.serial += 1
                self.jobs[attempt] = JobFacts(f"prepare-{attempt}", f"job-{self.serial}", is_suspended=True)
            case Action.MARK_STARTED if is_current:
                self.marks = Marks(Started("d", attempt, plan.job_uid, observation.nonce), self.marks.prepared)
                self.version += 1
            case Action.MARK_PREPARED if is_current:
                self.marks = evolve(self.marks, prepared="d")
                self.version += 1
            case Action.RESUME_JOB if self.jobs.get(attempt) == jobs.get(attempt):
                self._resume(attempt)
        if not plan.needs_source:
            self.locked = False

    def _resume(self, attempt: int) -> None:
        job = self.jobs[attempt]
        started = self.marks.started
        if started is None or (started.attempt, started.job_uid) != (attempt, job.uid):
            self.faults.append(f"{job.uid} runs without its mark")
        if self.marks.prepared:
            self.faults.append(f"{job.uid} runs after a success")
        if self.running:
            self.faults.append(f"{job.uid} runs beside {self.running}")
        self.jobs[attempt] = evolve(job, is_suspended=False, was_resumed=True)
        self.ran.append((attempt, job.uid))
        self.running.add(job.uid)

    def happen(self, event: str) -> None:
        active = [(attempt, job) for attempt, job in self.jobs.items() if job.uid in self.running]
        match event:
            case "complete" | "fail" if active:
                attempt, job = active[0]
                self.jobs[attempt] = evolve(job, is_complete=event == "complete", is_failed=event == "fail")
                self.running.discard(job.uid)
            case "delete job" if self.jobs:
                self.jobs.pop(min(self.jobs))  # its pod goes on for a while
            case "pod ends":
                self.running &= {job.uid for job in self.jobs.values()}
            case "recover":
                self.asked += 1
                self.nonce = f"n{self.asked}"
            case "unlock":
                self.locked = False


@settings(max_examples=400)
@given(st.lists(st.sampled_from(EVENTS), max_size=60))
def test_in_every_order_of_events_each_asked_attempt_runs_at_most_once_and_a_success_is_final(
    events: list[str],
) -> None:
    server = Server()
    views = [server.seen()]

    was_prepared = False
    for number, event in enumerate(events):
        if event == "look":
            views.append(server.seen())
        elif event == "act":
            # Mostly with the newest view, sometimes with an old one: a second leader, a cache that lags.
            server.act(views[-1] if number % 3 else views[len(views) // 2])
        else:
            server.happen(event)
        was_prepared = was_prepared or bool(server.marks.prepared)
        assert server.faults == []
        assert bool(server.marks.prepared) == was_prepared

    assert len(server.ran) <= server.asked
    assert len({attempt for attempt, _ in server.ran}) == len(server.ran)


@given(st.lists(st.sampled_from(["complete", "fail", "delete job", "recover", "pod ends"]), max_size=20))
def test_a_controller_that_keeps_looking_ends_with_one_success_or_asks(events: list[str]) -> None:
    server = Server()

    for event in [*events, "pod ends", "complete", "pod ends"]:
        for _ in range(8):
            server.act(server.seen())
        server.happen(event)
    for _ in range(8):
        server.act(server.seen())

    plan = next_step(server.seen()[0])
    assert plan.action is Action.NOTHING
    assert plan.phase in {"Succeeded", "Failed"}
    assert server.faults == []
    if plan.phase == "Succeeded":
        assert (server.jobs, server.locked) == ({}, False)
