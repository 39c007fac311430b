import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, TypeVar

import pytest
from attrs import evolve, frozen
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuruntime.control.events.correlator import DropCause
from gpuruntime.control.events.recorder import Recorder
from gpuruntime.kube.builtin.events import Event, EventSeries, ObjectReference
from gpuruntime.kube.errors import AlreadyExistsError, Status, UnavailableError
from gpuruntime.kube.forms import Form
from gpuruntime.kube.patches import MergePatch
from gpuruntime.meta import DynamicObject, FrozenDict, ResourceKind
from gpuruntime.testing.virtual_time import run_virtual

T = TypeVar("T")

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def now() -> datetime:
    return START + timedelta(seconds=asyncio.get_running_loop().time())


def pod(name: str) -> ObjectReference:
    return ObjectReference(api_version="v1", kind="Pod", namespace="shop", name=name)


class Server:
    """A server that keeps events.

    A request takes `latency` seconds. While `away`, requests fail. `lost_answers` says which of the next
    responses are lost after the request was executed.
    """

    def __init__(self, latency: float = 0.0) -> None:
        self.latency = latency
        self.away = False
        self.lost_answers: Iterator[bool] = iter(())
        self.events: dict[str, Event] = {}
        self.requests: list[tuple[float, str | None]] = []
        self.at_once = self.most_at_once = 0

    async def create(self, obj: Event) -> Event:
        async with self._request(obj.regarding.name):
            if obj.metadata.name in self.events:
                raise AlreadyExistsError(Status(409, "AlreadyExists"))
            self.events[obj.metadata.name] = obj
        return obj

    async def patch(self, form: Form[Any], name: str, namespace: str, patch: MergePatch) -> None:
        event = self.events[name]
        async with self._request(event.regarding.name):
            change = patch.body["series"]
            series = EventSeries(change["count"], change["lastObservedTime"])
            note = patch.body["message"] if form.kind.group == "" else event.note
            self.events[name] = evolve(event, series=series, note=note)
        assert namespace == event.metadata.namespace

    @asynccontextmanager
    async def _request(self, name: str | None) -> AsyncIterator[None]:
        self.requests.append((asyncio.get_running_loop().time(), name))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(self.latency)
            if self.away:
                raise UnavailableError("refused")
            yield
            if next(self.lost_answers, False):
                raise UnavailableError("cut off", outcome_unknown=True)
        finally:
            self.at_once -= 1

    def total(self) -> int:
        """The number of occurrences that reached the server."""
        return sum(event.series.count if event.series else 1 for event in self.events.values())


def recorder_of(server: Server) -> Recorder:
    return Recorder(server, controller="example.org/widgets", instance="widgets-0", now=now, random=Random(1))


@asynccontextmanager
async def running(recorder: Recorder) -> AsyncIterator[None]:
    """Runs a recorder, and stops it at the end."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(recorder.run())
        yield
        task.cancel()


def play(story: Callable[[Server, Recorder], Coroutine[Any, Any, T]], server: Server | None = None) -> T:
    stage = server or Server()

    async def act() -> T:
        return await story(stage, recorder_of(stage))

    return run_virtual(act())


def test_events_recorded_before_and_during_the_run_are_sent() -> None:
    async def story(server: Server, recorder: Recorder) -> list[tuple[str | None, str | None]]:
        recorder.record(pod("a"), "Normal", "R", "A", "early")
        async with running(recorder):
            await asyncio.sleep(1)
            recorder.record(pod("b"), "Warning", "R", "A", "late")
            await asyncio.sleep(1)
            return [(event.type, event.note) for event in server.events.values()]

    assert play(story) == [("Normal", "early"), ("Warning", "late")]


def test_stopping_sends_queued_and_counted_events() -> None:
    async def story(server: Server, recorder: Recorder) -> int:
        async with running(recorder):
            for _ in range(3):
                recorder.record(pod("a"), "Normal", "R", "A", "again")
                await asyncio.sleep(1)
            for number in range(100):
                recorder.record(pod(f"b-{number}"), "Normal", "R", "A", "queued")
        return server.total()

    assert play(story, Server(latency=0.01)) == 103


def test_stopping_takes_two_seconds_at_most_and_counts_lost_events() -> None:
    async def story(_server: Server, recorder: Recorder) -> tuple[float, int]:
        async with running(recorder):
            recorder.record(pod("a"), "Normal", "R", "A", "never sent")
            await asyncio.sleep(0)
        return asyncio.get_running_loop().time(), recorder.counters.dropped[DropCause.STOPPED]

    assert play(story, Server(latency=3600.0)) == (2.0, 1)


def test_stopping_does_not_wait_for_a_server_that_is_away() -> None:
    async def story(server: Server, recorder: Recorder) -> tuple[float, int]:
        server.away = True
        async with running(recorder):
            for number in range(20):
                recorder.record(pod(f"a-{number}"), "Normal", "R", "A", "never sent")
            await asyncio.sleep(5)
        return asyncio.get_running_loop().time(), recorder.counters.failed

    assert play(story) == (5.0, 20)


def test_a_second_cancellation_ends_the_flush() -> None:
    async def story(_server: Server, recorder: Recorder) -> float:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(recorder.run())
            recorder.record(pod("a"), "Normal", "R", "A", "never sent")
            await asyncio.sleep(1)
            task.cancel()
            await asyncio.sleep(1)
            task.cancel()
        return asyncio.get_running_loop().time()

    assert play(story, Server(latency=3600.0)) == 2.0


def test_events_recorded_after_the_end_are_silently_dropped() -> None:
    async def story(server: Server, recorder: Recorder) -> tuple[int, int, int]:
        async with running(recorder):
            await asyncio.sleep(1)
        recorder.record(pod("a"), "Normal", "R", "A", "too late")
        return len(server.events), recorder.depth, recorder.counters.dropped[DropCause.STOPPED]

    assert play(story) == (0, 0, 1)


def test_a_recorder_runs_once() -> None:
    async def story(_server: Server, recorder: Recorder) -> None:
        async with running(recorder):
            await asyncio.sleep(1)
        await recorder.run()

    with pytest.raises(RuntimeError):
        play(story)


def test_the_queue_of_a_recorder_that_does_not_run_is_bounded() -> None:
    async def story(_server: Server, recorder: Recorder) -> tuple[int, int]:
        for number in range(1500):
            recorder.record(pod(f"a-{number}"), "Normal", "R", "A", "waits")
        return recorder.depth, recorder.counters.dropped[DropCause.QUEUE_FULL]

    assert play(story) == (1000, 500)


def test_concurrent_requests_are_limited() -> None:
    async def story(server: Server, recorder: Recorder) -> tuple[int, int]:
        async with running(recorder):
            for number in range(100):
                recorder.record(pod(f"a-{number}"), "Normal", "R", "A", "crowd")
            await asyncio.sleep(100)
        return server.most_at_once, server.total()

    assert play(story, Server(latency=1.0)) == (8, 100)


def test_a_series_is_updated_after_six_quiet_minutes() -> None:
    async def story(server: Server, recorder: Recorder) -> tuple[list[float], int]:
        async with running(recorder):
            for _ in range(5):
                recorder.record(pod("a"), "Normal", "R", "A", "again")
                await asyncio.sleep(2)
            await asyncio.sleep(3600)
        return [at for at, _ in server.requests], server.total()

    assert play(story) == ([0.0, 2.0, 390.0], 5)


@pytest.mark.parametrize("regarding", ["a", None, 7])
def test_an_invalid_event_raises_nothing_and_is_logged_once(regarding: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def story(_server: Server, recorder: Recorder) -> int:
        for _ in range(3):
            recorder.record(regarding, "Normal", "R", "A", "about what?")
        return recorder.counters.dropped[DropCause.INVALID]

    with caplog.at_level(logging.WARNING):
        dropped = play(story)

    assert dropped == 3
    assert [record.message for record in caplog.records] == ["dropping invalid event"]


def test_an_event_about_an_undecodable_object_raises_nothing() -> None:
    kind = ResourceKind("example.org", "v1", "Widget", "widgets", namespaced=True)
    broken = DynamicObject(kind, FrozenDict({"metadata": {"name": 7}}))

    async def story(_server: Server, recorder: Recorder) -> int:
        recorder.record(broken, "Warning", "R", "A", "broken")
        return recorder.counters.dropped[DropCause.INVALID]

    assert play(story) == 1


@pytest.mark.parametrize("controller", ["", "a/b/c", "/a", "A.org/b", "-a", "a" * 64, "w ätsch"])
def test_a_controller_that_the_server_would_refuse_is_refused(controller: str) -> None:
    with pytest.raises(ValueError, match=f"controller .*{controller!r}"):
        Recorder(Server(), controller=controller, instance="widgets-0")


def test_an_instance_is_needed() -> None:
    with pytest.raises(ValueError, match=r"instance .*'widgets'"):
        Recorder(Server(), controller="widgets", instance="")


def test_an_instance_is_truncated() -> None:
    async def story(server: Server, _recorder: Recorder) -> list[str | None]:
        recorder = Recorder(server, controller="widgets", instance="ä" * 100, now=now)
        async with running(recorder):
            recorder.record(pod("a"), "Normal", "R", "A", "note")
            await asyncio.sleep(1)
        return [event.reporting_instance for event in server.events.values()]

    assert play(story) == ["ä" * 64]


@frozen
class Step:
    """An event that is recorded after a wait."""

    wait: int
    name: str
    reason: str
    note: str
    related: str


STEPS = st.lists(
    st.builds(
        Step,
        wait=st.sampled_from([0, 0, 0, 1, 20, 200, 400, 4000]),
        name=st.sampled_from("ab"),
        reason=st.sampled_from("RSTU"),
        note=st.sampled_from([f"note {number}" for number in range(15)]),
        related=st.sampled_from(["", "x", "y"]),
    ),
    max_size=120,
)


async def take(step: Step, recorder: Recorder) -> None:
    await asyncio.sleep(step.wait)
    related = pod(step.related) if step.related else None
    recorder.record(pod(step.name), "Normal", step.reason, "A", step.note, related)


@given(steps=STEPS)
@settings(max_examples=60)
def test_no_sequence_causes_more_requests_than_the_spam_filter_allows(steps: list[Step]) -> None:
    async def story(server: Server, recorder: Recorder) -> list[tuple[float, str | None]]:
        async with running(recorder):
            for step in steps:
                await take(step, recorder)
        return server.requests

    requests = play(story)

    first: dict[str | None, float] = {}
    number: Counter[str | None] = Counter()
    for at, name in requests:
        number[name] += 1
        assert number[name] <= 25 + (at - first.setdefault(name, at)) / 300


@given(steps=STEPS, losses=st.lists(st.booleans(), max_size=10))
@settings(max_examples=60)
def test_every_occurrence_is_delivered_or_counted_as_dropped_even_if_responses_get_lost(
    steps: list[Step], losses: list[bool]
) -> None:
    async def story(server: Server, recorder: Recorder) -> tuple[int, int, int]:
        server.lost_answers = iter(losses)
        async with running(recorder):
            for step in steps:
                await take(step, recorder)
            # Long enough for ten attempts: fewer than the limit, and none is left for the shutdown.
            await asyncio.sleep(150)
            server.lost_answers = iter(())
        return server.total(), sum(recorder.counters.dropped.values()), recorder.counters.failed

    shown, dropped, failed = play(story)

    assert (shown + dropped, failed) == (len(steps), 0)


@given(steps=STEPS.map(lambda steps: [evolve(step, wait=min(step.wait, 1)) for step in steps[:25]]))
@settings(max_examples=60)
def test_within_the_limits_each_event_is_created_once_and_has_the_newest_note(steps: list[Step]) -> None:
    singles = [evolve(step, note=f"note {step.note[-1]}") for step in steps]

    async def story(server: Server, recorder: Recorder) -> list[Event]:
        async with running(recorder):
            for step in singles:
                await take(step, recorder)
        return list(server.events.values())

    events = play(story)

    newest = {(step.name, step.reason, step.related): step.note for step in singles}
    shown = [
        ((event.regarding.name, event.reason, (event.related.name if event.related else "")), event.note)
        for event in events
    ]
    assert sorted(shown) == sorted(newest.items())
