"""What a single worker sees. Many workers: test_workqueue_workers.py; all at once: test_workqueue_model.py."""

import asyncio
import itertools
import math

import pytest

from gpuruntime.control.queueing.priorities import LOW_PRIORITY
from gpuruntime.control.queueing.rate_limiter import RateLimiter
from gpuruntime.control.queueing.work_item import KeyState, WorkItem
from gpuruntime.control.queueing.workqueue import WorkQueue
from gpuruntime.testing.virtual_time import run_virtual


async def serve(queue: WorkQueue[str], count: int) -> list[str]:
    """Process `count` keys."""
    served = []
    for _ in range(count):
        key = await queue.get()
        queue.done(key)
        served.append(key)
    return served


async def test_a_key_is_queued_once_however_often_it_is_added() -> None:
    queue = WorkQueue[str]("units")

    for key in ("a", "b", "a", "a"):
        queue.add(key)

    assert len(queue) == 2
    assert await serve(queue, 2) == ["a", "b"]
    assert len(queue) == 0


async def test_adds_of_a_running_key_lead_to_one_more_run_with_the_highest_priority() -> None:
    queue = WorkQueue[str]("units")
    queue.add("a")
    await queue.get()

    for priority in (1, 5, LOW_PRIORITY):
        queue.add("a", priority=priority)
    queue.add("b", priority=2)
    first = await queue.get_with_causes()
    queue.done("a")
    second = await queue.get_with_causes()

    assert (first.key, second.key, second.priority) == ("b", "a", 5)
    queue.done("a")
    assert len(queue) == 0


def test_a_running_key_runs_again_at_the_earliest_requested_time() -> None:
    async def story() -> float:
        queue = WorkQueue[str]("units")
        queue.add("a")
        await queue.get()
        for seconds in (30, 5, 60):
            queue.add_after("a", seconds)
        queue.done("a")
        await queue.get()
        return asyncio.get_running_loop().time()

    assert run_virtual(story()) == 5.0


async def test_a_higher_priority_is_served_first_and_equal_ones_in_order() -> None:
    queue = WorkQueue[str]("units")

    for key, priority in (("low", LOW_PRIORITY), ("a", 0), ("high", 7), ("b", 0), ("high too", 7)):
        queue.add(key, priority=priority)

    assert await serve(queue, 5) == ["high", "high too", "a", "b", "low"]


async def test_a_raised_priority_takes_effect_at_once_and_a_lower_one_never() -> None:
    queue = WorkQueue[str]("units")
    for key in ("a", "b", "c"):
        queue.add(key)

    queue.add("b", priority=3)
    queue.add("b", priority=LOW_PRIORITY)
    queue.add("c", priority=1)

    assert await serve(queue, 3) == ["b", "c", "a"]


def test_a_low_priority_key_waits_at_most_thirty_seconds_behind_steady_traffic() -> None:
    async def story() -> float:
        queue = WorkQueue[str]("units")
        names = (f"normal {number}" for number in itertools.count())
        queue.add("low", priority=LOW_PRIORITY)
        # Never empty: each key that is served has been replaced.
        for _ in range(2):
            queue.add(next(names))
        while True:
            queue.add(next(names))
            key = await queue.get()
            if key == "low":
                return asyncio.get_running_loop().time()
            await asyncio.sleep(0.25)
            queue.done(key)

    # Two keys that became ready within the 30 s are still ahead then.
    assert run_virtual(story()) == 30.5


def test_a_delayed_key_queues_behind_equal_priorities_when_its_delay_has_passed() -> None:
    async def story() -> list[str]:
        queue = WorkQueue[str]("units")
        queue.add_after("delayed", 5)
        queue.add("early")
        await asyncio.sleep(5)
        queue.add("late")
        return await serve(queue, 3)

    assert run_virtual(story()) == ["early", "delayed", "late"]


def test_a_plain_add_pulls_a_delayed_key_forward_and_keeps_the_higher_priority() -> None:
    async def story() -> tuple[WorkItem[str], int]:
        queue = WorkQueue[str]("units")
        queue.add_after("a", 3600, priority=4)
        await asyncio.sleep(1)
        queue.add("a", priority=2)
        item = await queue.get_with_causes()
        queue.done("a")
        return item, len(queue)

    item, left = run_virtual(story())

    assert (item.key, item.priority, item.waited, left) == ("a", 4, 0.0, 0)


def test_a_later_delay_postpones_nothing() -> None:
    async def story() -> float:
        queue = WorkQueue[str]("units")
        for seconds in (20, 10, 30):
            queue.add_after("a", seconds)
        await serve(queue, 1)
        return asyncio.get_running_loop().time()

    assert run_virtual(story()) == 10.0


@pytest.mark.parametrize("seconds", [0.0, -1.0])
async def test_an_add_without_a_delay_is_immediate_and_no_retry(seconds: float) -> None:
    queue = WorkQueue[str]("units")

    queue.add_after("a", seconds)

    assert await serve(queue, 1) == ["a"]
    assert queue.counters.retries == 0


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -math.inf])
async def test_a_delay_that_is_not_finite_is_refused(seconds: float) -> None:
    queue = WorkQueue[str]("units")

    with pytest.raises(ValueError, match=r"'units'.* 'a'.* seconds"):
        queue.add_after("a", seconds)
    assert len(queue) == 0


def test_failures_back_off_until_they_are_forgotten() -> None:
    async def story() -> list[tuple[int, float]]:
        queue = WorkQueue[str]("units", rate_limiter=RateLimiter(base=1, cap=4))
        loop = asyncio.get_running_loop()
        queue.add("a")
        seen = []
        for failed in (True, True, True, True, False, True):
            item = await queue.get_with_causes()
            seen.append((item.attempt, loop.time()))
            if failed:
                queue.add_rate_limited("a")
            else:
                queue.forget("a")
                queue.add("a")
            queue.done("a")
        assert queue.failures("a") == 1
        return seen

    assert run_virtual(story()) == [(1, 0.0), (2, 1.0), (3, 3.0), (4, 7.0), (5, 11.0), (1, 11.0)]


def test_jitter_shortens_a_delay() -> None:
    async def story() -> float:
        queue = WorkQueue[str]("units", rate_limiter=RateLimiter(base=8, jitter=0.5), chance=lambda: 0.25)
        queue.add_rate_limited("a")
        await queue.get()
        return asyncio.get_running_loop().time()

    assert run_virtual(story()) == 7.0


def test_a_work_item_has_its_attempt_and_causes() -> None:
    async def story() -> tuple[WorkItem[str], WorkItem[str]]:
        queue = WorkQueue[str]("units", rate_limiter=RateLimiter(base=1))
        queue.add_rate_limited("a", cause="error")
        queue.add_after("a", 9, cause="resync")
        await asyncio.sleep(3)
        queue.add("a", priority=2, cause="error")
        first = await queue.get_with_causes()
        queue.add("a", cause="spec")
        queue.done("a")
        return first, await queue.get_with_causes()

    first, second = run_virtual(story())

    assert first == WorkItem("a", 2, 2, 2.0, ("error", "resync"), 0)
    assert second == WorkItem("a", 0, 2, 0.0, ("spec",), 0)


async def test_causes_that_a_worker_did_not_ask_for_are_not_kept_for_the_next_run() -> None:
    queue = WorkQueue[str]("units")
    queue.add("a", cause="spec")
    await queue.get()
    queue.add("a")
    queue.done("a")

    item = await queue.get_with_causes()

    assert item.causes == ()


async def test_a_paused_key_keeps_its_position_for_when_it_is_resumed() -> None:
    queue = WorkQueue[str]("units")
    queue.pause("paused before")
    for key in ("paused before", "paused", "a", "b"):
        queue.add(key)

    queue.pause("paused")
    before = await serve(queue, 1)
    for key in ("paused", "paused before"):
        queue.resume(key)

    assert before == ["a"]
    assert await serve(queue, 3) == ["paused before", "paused", "b"]


async def test_adds_during_a_pause_lead_to_one_run_afterwards() -> None:
    queue = WorkQueue[str]("units")
    queue.add("a")
    await queue.get()
    queue.pause("a")

    queue.add("a")
    queue.add("a", priority=3, cause="spec")
    queue.done("a")
    queue.add("b")
    during = await serve(queue, 1)
    queue.resume("a")
    item = await queue.get_with_causes()

    assert during == ["b"]
    assert (item.key, item.priority, item.causes) == ("a", 3, ("spec",))


async def test_done_without_get_is_refused() -> None:
    queue = WorkQueue[str]("units")
    queue.add("a")

    with pytest.raises(ValueError, match=r"'a' .*'units'"):
        queue.done("a")
    await serve(queue, 1)
    with pytest.raises(ValueError, match=r"'a' .*'units'"):
        queue.done("a")


def test_a_snapshot_shows_every_key_and_its_state() -> None:
    async def story() -> dict[str, tuple[KeyState, int, float, float | None, float | None]]:
        queue = WorkQueue[str]("units", rate_limiter=RateLimiter(base=64))
        queue.pause("paused")
        queue.add("running", priority=9)
        await asyncio.sleep(1)
        await queue.get()
        queue.add("ready", priority=LOW_PRIORITY)
        queue.add_rate_limited("waiting")
        await asyncio.sleep(2)
        views = queue.snapshot()
        assert {view.key: view.failures for view in views if view.failures} == {"waiting": 1}
        assert [view.key for view in views if view.paused] == ["paused"]
        return {view.key: (view.state, view.priority, view.age, view.due_in, view.running_for) for view in views}

    assert run_virtual(story()) == {
        "running": (KeyState.RUNNING, 9, 3.0, None, 2.0),
        "ready": (KeyState.READY, LOW_PRIORITY, 2.0, -2.0, None),
        "waiting": (KeyState.WAITING, 0, 2.0, 62.0, None),
        "paused": (KeyState.IDLE, 0, 0.0, None, None),
    }


async def test_finished_keys_leave_nothing_behind() -> None:
    queue = WorkQueue[str]("units")

    for number in range(1000):
        queue.add_after(f"key {number}", 3600)
        queue.add(f"key {number}")
    await serve(queue, 1000)

    assert queue.snapshot() == ()
    assert len(queue._delayed._heap._entries) < 200
    assert not queue._items
