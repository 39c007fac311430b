import asyncio
import logging
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from attrs import evolve

from gpuruntime.control.events.correlator import DropCause, EventCorrelator, EventCounters
from gpuruntime.control.events.delivery import EventDelivery
from gpuruntime.control.events.series import Occurrence
from gpuruntime.kube.builtin.events import Event, EventSeries, ObjectReference
from gpuruntime.kube.errors import (
    AlreadyExistsError,
    BadRequestError,
    Cause,
    CredentialsError,
    ForbiddenError,
    InvalidError,
    KubeError,
    NotFoundError,
    NotSentError,
    ServerError,
    Status,
    StatusError,
    TooManyRequestsError,
    UnavailableError,
    UnexpectedResponseError,
)
from gpuruntime.kube.forms import Form
from gpuruntime.kube.patches import MergePatch
from gpuruntime.meta import DecodeError
from gpuruntime.testing.virtual_time import run_virtual

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
FORBIDDEN = ForbiddenError(Status(403, "Forbidden"))
Fault = Callable[[str], Exception | None]


def now() -> datetime:
    return START + timedelta(seconds=asyncio.get_running_loop().time())


class Server:
    """Keeps events by the rules of an API server. `before` and `after` may fail a request around its execution."""

    def __init__(self) -> None:
        self.events: dict[str, Event] = {}
        self.requests: list[tuple[str, str]] = []
        self.times: list[float] = []
        self.before: Fault = lambda _request: None
        self.after: Fault = lambda _request: None

    async def create(self, obj: Event) -> Event:
        async def execute() -> None:
            if obj.metadata.name in self.events:
                raise AlreadyExistsError(Status(409, "AlreadyExists"))
            self.events[obj.metadata.name] = obj

        await self._serve("create", "events.k8s.io", execute)
        return obj

    async def patch(self, form: Form[Any], name: str, namespace: str, patch: MergePatch) -> None:
        async def execute() -> None:
            event = self.events.get(name)
            if event is None or event.metadata.namespace != namespace:
                raise NotFoundError(Status(404, "NotFound"))
            change = patch.body["series"]
            series = EventSeries(change["count"], change["lastObservedTime"])
            note = patch.body["message"] if form.kind.group == "" else event.note
            self.events[name] = evolve(event, series=series, note=note)

        await self._serve("patch", form.kind.group or "core", execute)

    async def _serve(self, verb: str, group: str, execute: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.requests.append((verb, group))
        self.times.append(asyncio.get_running_loop().time())
        for fault in (self.before, self.after):
            if fault is self.after:
                await execute()
            error = fault(f"{verb} {group}")
            if error is not None:
                raise error


class Scene:
    """A server, a correlator and one worker."""

    def __init__(self) -> None:
        self.server = Server()
        self.counters = EventCounters()
        self.correlator = EventCorrelator(self.counters, Random(1))
        self.delivery = EventDelivery(
            self.server,
            self.correlator,
            self.counters,
            controller="widgets",
            instance="widgets-0",
            now=now,
            random=Random(1),
        )

    def see(self, note: str = "first", name: str = "web") -> None:
        about = ObjectReference(api_version="v1", kind="Pod", namespace="shop", name=name)
        self.correlator.observe(Occurrence.of(about, "Normal", "R", "A", note, None, now()))

    async def flush(self) -> None:
        await self.correlator.flush(now().timestamp())

    @property
    def shown(self) -> list[tuple[str | None, int]]:
        """Notes and counts on the server."""
        return [(event.note, event.series.count if event.series else 1) for event in self.server.events.values()]


def played(story: Callable[[Scene], Coroutine[Any, Any, None]]) -> Scene:
    """Run a story with a concurrent worker."""

    async def play() -> Scene:
        scene = Scene()
        async with asyncio.TaskGroup() as group:
            worker = group.create_task(scene.delivery.work())
            await story(scene)
            worker.cancel()
        return scene

    return run_virtual(play())


def times(number: int, error: Exception) -> Fault:
    """Fails the next `number` requests."""
    left = iter(range(number))
    return lambda _request: error if next(left, None) is not None else None


def test_the_second_occurrence_patches_the_first() -> None:
    async def story(scene: Scene) -> None:
        scene.see("same")
        await scene.flush()
        scene.see("same")
        await scene.flush()

    scene = played(story)

    assert scene.shown == [("same", 2)]
    assert scene.server.requests == [("create", "events.k8s.io"), ("patch", "events.k8s.io")]
    assert (scene.counters.sent, scene.counters.patched, scene.counters.failed) == (1, 1, 0)


def test_a_new_note_is_patched_through_the_core_group() -> None:
    async def story(scene: Scene) -> None:
        for note in ("one", "two", "three"):
            scene.see(note)
            await scene.flush()

    scene = played(story)

    assert scene.shown == [("three", 3)]
    assert scene.server.requests[1:] == [("patch", "core"), ("patch", "core")]


def test_counts_are_updated_without_the_permission_to_change_notes(caplog: pytest.LogCaptureFixture) -> None:
    async def story(scene: Scene) -> None:
        scene.server.before = lambda request: FORBIDDEN if request == "patch core" else None
        for note in ("one", "two", "three"):
            scene.see(note)
            await scene.flush()

    with caplog.at_level(logging.WARNING):
        scene = played(story)

    assert scene.shown == [("one", 3)]
    assert (scene.counters.patched, scene.counters.failed) == (2, 0)
    assert [record.message for record in caplog.records] == [
        "event note not updated: grant patch on events of the core group"
    ]


def test_an_event_that_the_server_has_lost_is_created_again_with_its_count() -> None:
    async def story(scene: Scene) -> None:
        scene.see("one")
        await scene.flush()
        scene.server.events.clear()
        scene.see("two")
        await scene.flush()

    scene = played(story)

    assert scene.shown == [("two", 2)]
    assert scene.counters.sent == 2


@pytest.mark.parametrize(
    "error",
    [
        UnavailableError("reset"),
        UnexpectedResponseError("a page of a proxy"),
        CredentialsError("no token"),
        ServerError(Status(500)),
        TooManyRequestsError(Status(429)),
    ],
)
def test_a_failed_write_is_retried(error: KubeError) -> None:
    async def story(scene: Scene) -> None:
        scene.server.before = times(11, error)
        scene.see()
        await scene.flush()

    scene = played(story)

    pauses = [later - earlier for earlier, later in zip(scene.server.times, scene.server.times[1:], strict=False)]
    assert scene.shown == [("first", 1)]
    assert len(pauses) == 11
    assert all(10.0 <= pause <= 12.5 for pause in pauses)
    assert (scene.counters.sent, scene.counters.failed) == (1, 0)


def test_delivery_gives_up_after_twelve_attempts_and_the_next_event_is_sent(caplog: pytest.LogCaptureFixture) -> None:
    async def story(scene: Scene) -> None:
        scene.server.before = times(12, UnavailableError("reset"))
        scene.see("lost")
        await scene.flush()
        scene.see("sent")
        await scene.flush()

    with caplog.at_level(logging.WARNING):
        scene = played(story)

    assert scene.shown == [("sent", 1)]
    assert (len(scene.server.requests), scene.counters.failed) == (13, 1)
    assert [record.message for record in caplog.records] == ["event delivery failed, giving up"]


def test_occurrences_during_an_outage_are_delivered_afterwards() -> None:
    async def story(scene: Scene) -> None:
        scene.server.before = times(3, UnavailableError("refused"))
        scene.see("one")
        await asyncio.sleep(5)
        scene.see("two")
        scene.see("three")
        await scene.flush()

    scene = played(story)

    assert scene.shown == [("three", 3)]
    assert scene.server.requests == [("create", "events.k8s.io")] * 4


def test_a_write_whose_response_was_lost_is_not_repeated_but_updated() -> None:
    async def story(scene: Scene) -> None:
        scene.server.after = times(1, UnavailableError("cut off", outcome_unknown=True))
        scene.see("one")
        await asyncio.sleep(5)
        scene.see("two")
        await scene.flush()

    scene = played(story)

    assert scene.shown == [("two", 2)]
    assert (scene.counters.sent, scene.counters.patched, scene.counters.failed) == (1, 1, 0)


def test_a_response_that_cannot_be_decoded_counts_as_success() -> None:
    async def story(scene: Scene) -> None:
        scene.server.after = times(2, DecodeError("Event", ["odd"]))
        scene.see()
        await scene.flush()
        scene.see("second")
        await scene.flush()

    scene = played(story)

    assert scene.shown == [("second", 2)]
    assert (scene.counters.sent, scene.counters.patched, scene.counters.failed) == (1, 1, 0)


def test_a_403_of_a_starting_server_is_retried() -> None:
    async def story(scene: Scene) -> None:
        scene.server.before = times(3, FORBIDDEN)
        scene.see()
        await scene.flush()

    scene = played(story)

    assert (scene.shown, scene.counters.failed) == ([("first", 1)], 0)


def test_a_forbidden_namespace_is_retried_for_one_event_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(scene: Scene) -> None:
        scene.server.before = times(8, FORBIDDEN)
        for name in ("a", "b", "c"):
            scene.see(name=name)
        await scene.flush()
        scene.server.before = times(2, FORBIDDEN)
        scene.see(name="allowed meanwhile")
        await scene.flush()

    with caplog.at_level(logging.WARNING):
        scene = played(story)

    assert len(scene.server.requests) == 6 + 1 + 1 + 1
    assert (scene.counters.sent, scene.counters.failed) == (0, 4)
    assert [record.message for record in caplog.records] == ["event refused, not retried"]


def test_a_403_of_a_terminating_namespace_is_final() -> None:
    terminating = ForbiddenError(Status(403, "Forbidden", causes=(Cause("NamespaceTerminating"),)))

    async def story(scene: Scene) -> None:
        scene.server.before = times(1, terminating)
        scene.see()
        await scene.flush()

    assert len(played(story).server.requests) == 1


@pytest.mark.parametrize("error", [BadRequestError(Status(400)), InvalidError(Status(422)), NotFoundError(Status(404))])
def test_a_refusal_is_final_and_logged_once(error: StatusError, caplog: pytest.LogCaptureFixture) -> None:
    async def story(scene: Scene) -> None:
        scene.server.before = times(2, error)
        for name in ("a", "b", "c"):
            scene.see(name=name)
        await scene.flush()

    with caplog.at_level(logging.WARNING):
        scene = played(story)

    assert len(scene.server.requests) == 3
    assert (scene.counters.sent, scene.counters.failed) == (1, 2)
    assert [record.message for record in caplog.records] == ["event refused, not retried"]


def test_a_refused_note_does_not_suppress_the_log_of_a_refused_event(caplog: pytest.LogCaptureFixture) -> None:
    async def story(scene: Scene) -> None:
        scene.see("one")
        await scene.flush()
        scene.server.before = lambda request: None if request == "patch events.k8s.io" else FORBIDDEN
        scene.see("two")
        scene.see(name="other")
        await scene.flush()

    with caplog.at_level(logging.WARNING):
        played(story)

    assert [record.message for record in caplog.records] == [
        "event note not updated: grant patch on events of the core group",
        "event refused, not retried",
    ]


def test_a_bug_in_the_client_loses_one_event() -> None:
    async def story(scene: Scene) -> None:
        scene.server.before = times(1, ZeroDivisionError())
        scene.see(name="a")
        scene.see(name="b")
        await scene.flush()

    scene = played(story)

    assert (scene.counters.sent, scene.counters.failed) == (1, 1)


def test_an_event_of_a_replica_that_does_not_lead_is_dropped_and_counted() -> None:
    async def story(scene: Scene) -> None:
        scene.server.before = times(1, NotSentError("not sent"))
        scene.see(name="a")
        scene.see(name="b")
        await scene.flush()

    scene = played(story)

    assert (scene.counters.sent, scene.counters.failed) == (1, 0)
    assert scene.counters.dropped[DropCause.NOT_LEADER] == 1
    assert len(scene.server.requests) == 2


def test_a_waiting_write_is_attempted_once_more_when_stopping() -> None:
    async def story(scene: Scene) -> None:
        scene.server.before = times(2, UnavailableError("refused"))
        scene.see()
        await asyncio.sleep(5)
        scene.delivery.stop_retrying()
        await scene.flush()

    scene = played(story)

    assert scene.server.times == [0.0, 5.0]
    assert scene.counters.failed == 1
