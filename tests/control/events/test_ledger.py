import asyncio
from datetime import UTC, datetime, timedelta
from random import Random

from attrs import evolve

from gpuruntime.control.events.counters import DropCause, EventCounters
from gpuruntime.control.events.ledger import EventLedger
from gpuruntime.control.events.occurrence import Occurrence
from gpuruntime.control.events.series import QUIET_SECONDS, Series
from gpuruntime.kube.builtin.events import ObjectReference
from gpuruntime.testing.virtual_time import run_virtual

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def pod(name: str) -> ObjectReference:
    return ObjectReference(api_version="v1", kind="Pod", namespace="shop", name=name)


class Desk:
    """A ledger, and a worker whose writes always succeed."""

    def __init__(self) -> None:
        self.counters = EventCounters()
        self.ledger = EventLedger(self.counters, Random(1))

    def see(
        self, name: str = "web", *, seconds: float = 0.0, note: str = "", reason: str = "R", related: str = ""
    ) -> None:
        beside = pod(related) if related else None
        self.ledger.observe(Occurrence.of(pod(name), "Normal", reason, "A", note, beside, at(seconds)))

    async def take(self) -> Series:
        return await asyncio.wait_for(self.ledger.next(), 1.0)

    def finish(self, series: Series, seconds: float = 0.0) -> None:
        now = at(seconds).timestamp()
        series.accepted(series.tally, now)
        self.ledger.done(series, now)

    async def work(self, seconds: float = 0.0) -> list[Series]:
        """Write all that is queued."""
        written = []
        while self.ledger.depth:
            written.append(await self.take())
            self.finish(written[-1], seconds)
        return written


async def test_what_happens_again_before_it_was_sent_is_sent_once() -> None:
    desk = Desk()

    for _ in range(100):
        desk.see()
    written = await desk.work()

    assert [series.tally.count for series in written] == [100]


async def test_what_happens_a_second_time_during_the_write_leads_to_one_more() -> None:
    desk = Desk()
    desk.see()
    series = await desk.take()
    tally = series.tally

    desk.see()
    held_back = desk.ledger.depth
    series.accepted(tally, START.timestamp())
    desk.ledger.done(series, START.timestamp())

    assert (held_back, desk.ledger.depth) == (0, 1)


async def test_a_series_that_goes_on_is_told_each_half_an_hour() -> None:
    desk = Desk()
    told: list[tuple[int, int]] = []

    for minute in range(100):
        desk.see(seconds=minute * 60.0)
        desk.ledger.sweep(at(minute * 60.0).timestamp())
        told += [(minute, series.tally.count) for series in await desk.work(minute * 60.0)]

    assert told == [(0, 1), (1, 2), (31, 32), (61, 62), (91, 92)]


async def test_a_series_that_ended_is_told_and_forgotten() -> None:
    desk = Desk()
    desk.see()
    desk.see()
    await desk.work()
    desk.see(seconds=5.0)

    over = 5.0 + QUIET_SECONDS
    desk.ledger.sweep(at(over).timestamp())
    written = await desk.work(over)
    desk.ledger.sweep(at(over).timestamp())

    assert [series.tally.count for series in written] == [3]
    assert len(desk.ledger) == 0


async def test_what_comes_after_the_end_is_a_new_event() -> None:
    desk = Desk()
    desk.see()
    (first,) = await desk.work()
    desk.ledger.sweep(at(QUIET_SECONDS).timestamp())

    desk.see(seconds=QUIET_SECONDS)
    (second,) = await desk.work()

    assert first.name != second.name
    assert second.tally.count == 1


async def test_a_loss_makes_the_next_occurrence_a_first_one() -> None:
    desk = Desk()
    desk.see()
    series = await desk.take()
    desk.see()

    desk.ledger.lost(series, START.timestamp())
    desk.ledger.done(series, START.timestamp())
    unasked = desk.ledger.depth
    desk.see()
    (after,) = await desk.work()

    assert unasked == 0
    assert (after.tally.count, after.exists) == (1, True)


async def test_a_full_queue_drops_the_newest_and_spends_none_of_its_budget() -> None:
    desk = Desk()
    for number in range(1000):
        desk.see(f"web-{number}")

    for _ in range(100):
        desk.see("late")
    full = desk.counters.dropped[DropCause.QUEUE_FULL]
    written = await desk.work()
    for reason in range(26):
        desk.see("late", reason=f"R{reason}")

    assert full == 100
    assert len(written) == 1000
    assert desk.counters.dropped[DropCause.BUDGET] == 1


async def test_an_object_above_its_budget_gets_no_new_events_but_its_counts_are_told_later() -> None:
    desk = Desk()
    for reason in range(25):
        desk.see(reason=f"R{reason}")
    await desk.work()

    desk.see(reason="new")
    desk.see(reason="R0")
    at_once = await desk.work()
    desk.ledger.sweep(at(300.0).timestamp())
    later = await desk.work(300.0)

    assert desk.counters.dropped[DropCause.BUDGET] == 1
    assert at_once == []
    assert [(series.key.reason, series.tally.count) for series in later] == [("R0", 2)]


async def test_the_parts_of_an_object_share_its_budget() -> None:
    desk = Desk()

    for number in range(26):
        part = evolve(pod("web"), field_path=f"spec.containers[{number}]")
        desk.ledger.observe(Occurrence.of(part, "Normal", "R", "A", "", None, START))

    assert (desk.ledger.depth, desk.counters.dropped[DropCause.BUDGET]) == (25, 1)


async def test_many_different_notes_become_one_event_whatever_they_are_related_to() -> None:
    desk = Desk()

    for number in range(20):
        desk.see(note=f"bound to {number}", related=f"node-{number}")
    *single, last = await desk.work()

    assert [series.tally.note for series in single] == [f"bound to {number}" for number in range(10)]
    assert last.key.related is None
    assert last.tally.note == "(combined from similar events): bound to 19"
    assert last.tally.count == 10


async def test_a_combined_note_fits_too() -> None:
    desk = Desk()

    for number in range(11):
        desk.see(note=f"{number:04}" * 256)
    (series,) = await desk.work()

    assert series.tally.note.startswith("(combined from similar events): 00100010")
    assert len(series.tally.note) == 1024


async def test_memory_is_bounded_and_nothing_is_forgotten_untold() -> None:
    desk = Desk()
    for number in range(4096):
        desk.see(f"web-{number}")
        await desk.work()
    desk.see("web-0")
    await desk.work()
    desk.see("web-0")
    for number in range(1, 4096):
        desk.see(f"web-{number}")
        await desk.work()

    desk.see("new")
    written = await desk.work()

    assert len(desk.ledger) == 4096
    assert [(series.key.regarding.name, series.tally.count) for series in written] == [("new", 1), ("web-0", 3)]


def test_settling_waits_for_the_workers_and_tells_what_is_not_due() -> None:
    async def story() -> list[int]:
        desk = Desk()
        told: list[int] = []

        async def work() -> None:
            while True:
                series = await desk.ledger.next()
                await asyncio.sleep(1)
                told.append(series.tally.count)
                desk.finish(series)

        async with asyncio.TaskGroup() as group:
            worker = group.create_task(work())
            desk.see()
            desk.see()
            await asyncio.sleep(5)
            desk.see()
            await desk.ledger.settle(START.timestamp())
            worker.cancel()
        assert desk.ledger.untold() == 0
        return told

    assert run_virtual(story()) == [2, 3]
