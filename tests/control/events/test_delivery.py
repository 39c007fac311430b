import asyncio
import logging
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from attrs import evolve

from gpuruntime.control.events.counters import DropCause, EventCounters
from gpuruntime.control.events.delivery import EventDelivery
from gpuruntime.control.events.ledger import EventLedger
from gpuruntime.control.events.occurrence import Occurrence
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
    """Keeps events by the rules of the real one. `fault` may fail a request, "before" or "after" it was executed."""

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


class Office:
    """A server, a ledger and one worker."""

    def __init__(self) -> None:
        self.server = Server()
        self.counters = EventCounters()
        self.ledger = EventLedger(self.counters, Random(1))
        self.delivery = EventDelivery(
            self.server,
            self.ledger,
            self.counters,
            controller="widgets",
            instance="widgets-0",
            now=now,
            random=Random(1),
        )

    def see(self, note: str = "first", name: str = "web") -> None:
        about = ObjectReference(api_version="v1", kind="Pod", namespace="shop", name=name)
        self.ledger.observe(Occurrence.of(about, "Normal", "R", "A", note, None, now()))

    async def settle(self) -> None:
        await self.ledger.settle(now().timestamp())

    @property
    def shown(self) -> list[tuple[str | None, int]]:
        """Notes and counts on the server."""
        return [(event.note, event.series.count if event.series else 1) for event in self.server.events.values()]


def played(story: Callable[[Office], Coroutine[Any, Any, None]]) -> Office:
    """Run a story with a worker beside it."""

    async def play() -> Office:
        office = Office()
        async with asyncio.TaskGroup() as group:
            worker = group.create_task(office.delivery.work())
            await story(office)
            worker.cancel()
        return office

    return run_virtual(play())


def times(number: int, error: Exception) -> Fault:
    """Fails so many requests."""
    left = iter(range(number))
    return lambda _request: error if next(left, None) is not None else None


def test_the_second_occurrence_patches_the_first() -> None:
    async def story(office: Office) -> None:
        office.see("same")
        await office.settle()
        office.see("same")
        await office.settle()

    office = played(story)

    assert office.shown == [("same", 2)]
    assert office.server.requests == [("create", "events.k8s.io"), ("patch", "events.k8s.io")]
    assert (office.counters.sent, office.counters.patched, office.counters.failed) == (1, 1, 0)


def test_a_new_note_goes_the_way_on_which_the_server_takes_it() -> None:
    async def story(office: Office) -> None:
        for note in ("one", "two", "three"):
            office.see(note)
            await office.settle()

    office = played(story)

    assert office.shown == [("three", 3)]
    assert office.server.requests[1:] == [("patch", "core"), ("patch", "core")]


def test_who_may_not_change_notes_still_counts(caplog: pytest.LogCaptureFixture) -> None:
    async def story(office: Office) -> None:
        office.server.before = lambda request: FORBIDDEN if request == "patch core" else None
        for note in ("one", "two", "three"):
            office.see(note)
            await office.settle()

    with caplog.at_level(logging.WARNING):
        office = played(story)

    assert office.shown == [("one", 3)]
    assert (office.counters.patched, office.counters.failed) == (2, 0)
    assert [record.message for record in caplog.records] == [
        "note of an event not updated: grant patch on events of the core group"
    ]


def test_an_event_that_the_server_has_lost_is_made_again_with_its_count() -> None:
    async def story(office: Office) -> None:
        office.see("one")
        await office.settle()
        office.server.events.clear()
        office.see("two")
        await office.settle()

    office = played(story)

    assert office.shown == [("two", 2)]
    assert office.counters.sent == 2


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
def test_a_failure_is_tried_again_until_it_works(error: KubeError) -> None:
    async def story(office: Office) -> None:
        office.server.before = times(11, error)
        office.see()
        await office.settle()

    office = played(story)

    pauses = [later - earlier for earlier, later in zip(office.server.times, office.server.times[1:], strict=False)]
    assert office.shown == [("first", 1)]
    assert len(pauses) == 11
    assert all(10.0 <= pause <= 12.5 for pause in pauses)
    assert (office.counters.sent, office.counters.failed) == (1, 0)


def test_after_twelve_tries_it_is_given_up_and_the_next_one_is_sent(caplog: pytest.LogCaptureFixture) -> None:
    async def story(office: Office) -> None:
        office.server.before = times(12, UnavailableError("reset"))
        office.see("lost")
        await office.settle()
        office.see("sent")
        await office.settle()

    with caplog.at_level(logging.WARNING):
        office = played(story)

    assert office.shown == [("sent", 1)]
    assert (len(office.server.requests), office.counters.failed) == (13, 1)
    assert [record.message for record in caplog.records] == ["event could not be sent, given up"]


def test_what_happens_while_the_server_is_away_is_told_when_it_is_back() -> None:
    async def story(office: Office) -> None:
        office.server.before = times(3, UnavailableError("refused"))
        office.see("one")
        await asyncio.sleep(5)
        office.see("two")
        office.see("three")
        await office.settle()

    office = played(story)

    assert office.shown == [("three", 3)]
    assert office.server.requests == [("create", "events.k8s.io")] * 4


def test_a_write_whose_answer_was_lost_is_not_repeated_but_brought_up_to_date() -> None:
    async def story(office: Office) -> None:
        office.server.after = times(1, UnavailableError("cut off", outcome_unknown=True))
        office.see("one")
        await asyncio.sleep(5)
        office.see("two")
        await office.settle()

    office = played(story)

    assert office.shown == [("two", 2)]
    assert (office.counters.sent, office.counters.patched, office.counters.failed) == (1, 1, 0)


def test_an_answer_that_cannot_be_read_is_an_answer() -> None:
    async def story(office: Office) -> None:
        office.server.after = times(2, DecodeError("Event", ["odd"]))
        office.see()
        await office.settle()
        office.see("second")
        await office.settle()

    office = played(story)

    assert office.shown == [("second", 2)]
    assert (office.counters.sent, office.counters.patched, office.counters.failed) == (1, 1, 0)


def test_an_event_outlives_the_403_of_a_server_that_starts() -> None:
    async def story(office: Office) -> None:
        office.server.before = times(3, FORBIDDEN)
        office.see()
        await office.settle()

    office = played(story)

    assert (office.shown, office.counters.failed) == ([("first", 1)], 0)


def test_a_namespace_in_which_events_are_forbidden_for_good_is_tried_for_one_event_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(office: Office) -> None:
        office.server.before = times(8, FORBIDDEN)
        for name in ("a", "b", "c"):
            office.see(name=name)
        await office.settle()
        office.server.before = times(2, FORBIDDEN)
        office.see(name="allowed meanwhile")
        await office.settle()

    with caplog.at_level(logging.WARNING):
        office = played(story)

    assert len(office.server.requests) == 6 + 1 + 1 + 1
    assert (office.counters.sent, office.counters.failed) == (0, 4)
    assert [record.message for record in caplog.records] == ["event refused, not tried again"]


def test_the_403_of_a_namespace_that_goes_is_final() -> None:
    going = ForbiddenError(Status(403, "Forbidden", causes=(Cause("NamespaceTerminating"),)))

    async def story(office: Office) -> None:
        office.server.before = times(1, going)
        office.see()
        await office.settle()

    assert len(played(story).server.requests) == 1


@pytest.mark.parametrize("error", [BadRequestError(Status(400)), InvalidError(Status(422)), NotFoundError(Status(404))])
def test_a_refusal_is_final_logged_once_and_stops_nobody(error: StatusError, caplog: pytest.LogCaptureFixture) -> None:
    async def story(office: Office) -> None:
        office.server.before = times(2, error)
        for name in ("a", "b", "c"):
            office.see(name=name)
        await office.settle()

    with caplog.at_level(logging.WARNING):
        office = played(story)

    assert len(office.server.requests) == 3
    assert (office.counters.sent, office.counters.failed) == (1, 2)
    assert [record.message for record in caplog.records] == ["event refused, not tried again"]


def test_a_refused_note_does_not_hide_a_refused_event_from_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def story(office: Office) -> None:
        office.see("one")
        await office.settle()
        office.server.before = lambda request: None if request == "patch events.k8s.io" else FORBIDDEN
        office.see("two")
        office.see(name="other")
        await office.settle()

    with caplog.at_level(logging.WARNING):
        played(story)

    assert [record.message for record in caplog.records] == [
        "note of an event not updated: grant patch on events of the core group",
        "event refused, not tried again",
    ]


def test_a_bug_of_the_client_costs_one_event() -> None:
    async def story(office: Office) -> None:
        office.server.before = times(1, ZeroDivisionError())
        office.see(name="a")
        office.see(name="b")
        await office.settle()

    office = played(story)

    assert (office.counters.sent, office.counters.failed) == (1, 1)


def test_what_a_guard_of_this_process_keeps_back_is_dropped_counted_and_not_tried_again() -> None:
    async def story(office: Office) -> None:
        office.server.before = times(1, NotSentError("not sent"))
        office.see(name="a")
        office.see(name="b")
        await office.settle()

    office = played(story)

    assert (office.counters.sent, office.counters.failed) == (1, 0)
    assert office.counters.dropped[DropCause.NOT_LEADER] == 1
    assert len(office.server.requests) == 2


def test_in_a_hurry_a_waiting_write_is_tried_once_more_at_once() -> None:
    async def story(office: Office) -> None:
        office.server.before = times(2, UnavailableError("refused"))
        office.see()
        await asyncio.sleep(5)
        office.delivery.hurry()
        await office.settle()

    office = played(story)

    assert office.server.times == [0.0, 5.0]
    assert office.counters.failed == 1
