import asyncio
from datetime import UTC, datetime, timedelta
from random import Random

from attrs import evolve

from gpuruntime.control.events.correlator import DropCause, EventCorrelator, EventCounters
from gpuruntime.control.events.series import QUIET_SECONDS, Occurrence, Series
from gpuruntime.kube.builtin.events import ObjectReference
from gpuruntime.testing.virtual_time import run_virtual

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def pod(name: str) -> ObjectReference:
    return ObjectReference(api_version="v1", kind="Pod", namespace="shop", name=name)


class Scene:
    """A correlator, and a worker whose writes always succeed."""

    def __init__(self) -> None:
        self.counters = EventCounters()
        self.correlator = EventCorrelator(self.counters, Random(1))

    def see(
        self, name: str = "web", *, seconds: float = 0.0, note: str = "", reason: str = "R", related: str = ""
    ) -> None:
        beside = pod(related) if related else None
        self.correlator.observe(Occurrence.of(pod(name), "Normal", reason, "A", note, beside, at(seconds)))

    async def take(self) -> Series:
        return await asyncio.wait_for(self.correlator.next(), 1.0)

    def finish(self, series: Series, seconds: float = 0.0) -> None:
        now = at(seconds).timestamp()
        series.accepted(series.tally, now)
        self.correlator.done(series, now)

    async def work(self, seconds: float = 0.0) -> list[Series]:
        """Write all queued series."""
        written = []
        while self.correlator.depth:
            written.append(await self.take())
            self.finish(written[-1], seconds)
        return written


async def test_occurrences_before_the_first_delivery_are_one_write() -> None:
    scene = Scene()

    for _ in range(100):
        scene.see()
    written = await scene.work()

    assert [series.tally.count for series in written] == [100]


async def test_an_occurrence_during_a_write_leads_to_one_more_write() -> None:
    scene = Scene()
    scene.see()
    series = await scene.take()
    tally = series.tally

    scene.see()
    held_back = scene.correlator.depth
    series.accepted(tally, START.timestamp())
    scene.correlator.done(series, START.timestamp())

    assert (held_back, scene.correlator.depth) == (0, 1)


async def test_an_active_series_is_updated_every_half_an_hour() -> None:
    scene = Scene()
    delivered: list[tuple[int, int]] = []

    for minute in range(100):
        scene.see(seconds=minute * 60.0)
        scene.correlator.sweep(at(minute * 60.0).timestamp())
        delivered += [(minute, series.tally.count) for series in await scene.work(minute * 60.0)]

    assert delivered == [(0, 1), (1, 2), (31, 32), (61, 62), (91, 92)]


async def test_a_series_that_is_over_is_delivered_and_removed() -> None:
    scene = Scene()
    scene.see()
    scene.see()
    await scene.work()
    scene.see(seconds=5.0)

    over = 5.0 + QUIET_SECONDS
    scene.correlator.sweep(at(over).timestamp())
    written = await scene.work(over)
    scene.correlator.sweep(at(over).timestamp())

    assert [series.tally.count for series in written] == [3]
    assert len(scene.correlator) == 0


async def test_an_occurrence_after_the_end_is_a_new_event() -> None:
    scene = Scene()
    scene.see()
    (first,) = await scene.work()
    scene.correlator.sweep(at(QUIET_SECONDS).timestamp())

    scene.see(seconds=QUIET_SECONDS)
    (second,) = await scene.work()

    assert first.name != second.name
    assert second.tally.count == 1


async def test_giving_up_makes_the_next_occurrence_the_first_of_a_series() -> None:
    scene = Scene()
    scene.see()
    series = await scene.take()
    scene.see()

    scene.correlator.give_up(series, START.timestamp())
    scene.correlator.done(series, START.timestamp())
    queued_meanwhile = scene.correlator.depth
    scene.see()
    (after,) = await scene.work()

    assert queued_meanwhile == 0
    assert (after.tally.count, after.exists) == (1, True)


async def test_a_full_queue_drops_new_events_without_taking_their_tokens() -> None:
    scene = Scene()
    for number in range(1000):
        scene.see(f"web-{number}")

    for _ in range(100):
        scene.see("late")
    full = scene.counters.dropped[DropCause.QUEUE_FULL]
    written = await scene.work()
    for reason in range(26):
        scene.see("late", reason=f"R{reason}")

    assert full == 100
    assert len(written) == 1000
    assert scene.counters.dropped[DropCause.SPAM_FILTER] == 1


async def test_a_filtered_object_gets_no_new_events_but_its_counts_are_delivered_later() -> None:
    scene = Scene()
    for reason in range(25):
        scene.see(reason=f"R{reason}")
    await scene.work()

    scene.see(reason="new")
    scene.see(reason="R0")
    at_once = await scene.work()
    scene.correlator.sweep(at(300.0).timestamp())
    later = await scene.work(300.0)

    assert scene.counters.dropped[DropCause.SPAM_FILTER] == 1
    assert at_once == []
    assert [(series.key.reason, series.tally.count) for series in later] == [("R0", 2)]


async def test_the_parts_of_an_object_share_its_bucket() -> None:
    scene = Scene()

    for number in range(26):
        part = evolve(pod("web"), field_path=f"spec.containers[{number}]")
        scene.correlator.observe(Occurrence.of(part, "Normal", "R", "A", "", None, START))

    assert (scene.correlator.depth, scene.counters.dropped[DropCause.SPAM_FILTER]) == (25, 1)


async def test_many_distinct_notes_become_one_event_whatever_their_related_object() -> None:
    scene = Scene()

    for number in range(20):
        scene.see(note=f"bound to {number}", related=f"node-{number}")
    *single, last = await scene.work()

    assert [series.tally.note for series in single] == [f"bound to {number}" for number in range(10)]
    assert last.key.related is None
    assert last.tally.note == "(combined from similar events): bound to 19"
    assert last.tally.count == 10


async def test_an_aggregated_note_is_truncated() -> None:
    scene = Scene()

    for number in range(11):
        scene.see(note=f"{number:04}" * 256)
    (series,) = await scene.work()

    assert series.tally.note.startswith("(combined from similar events): 00100010")
    assert len(series.tally.note) == 1024


async def test_memory_is_bounded_and_an_evicted_series_is_delivered_first() -> None:
    scene = Scene()
    for number in range(4096):
        scene.see(f"web-{number}")
        await scene.work()
    scene.see("web-0")
    await scene.work()
    scene.see("web-0")
    for number in range(1, 4096):
        scene.see(f"web-{number}")
        await scene.work()

    scene.see("new")
    written = await scene.work()

    assert len(scene.correlator) == 4096
    assert [(series.key.regarding.name, series.tally.count) for series in written] == [("new", 1), ("web-0", 3)]


def test_flush_waits_for_the_workers_and_delivers_series_that_are_not_due() -> None:
    async def story() -> list[int]:
        scene = Scene()
        delivered: list[int] = []

        async def work() -> None:
            while True:
                series = await scene.correlator.next()
                await asyncio.sleep(1)
                delivered.append(series.tally.count)
                scene.finish(series)

        async with asyncio.TaskGroup() as group:
            worker = group.create_task(work())
            scene.see()
            scene.see()
            await asyncio.sleep(5)
            scene.see()
            await scene.correlator.flush(START.timestamp())
            worker.cancel()
        assert scene.correlator.pending() == 0
        return delivered

    assert run_virtual(story()) == [2, 3]
