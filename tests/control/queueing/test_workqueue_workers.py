"""Many workers, their cancellation, and closing a queue."""

import asyncio
import gc
import weakref
from contextlib import suppress
from random import Random

import pytest
from attrs import define
from hypothesis import given, note, settings
from hypothesis import strategies as st

from gpuruntime.control.queueing.priorities import LOW_PRIORITY
from gpuruntime.control.queueing.rate_limiter import RateLimiter
from gpuruntime.control.queueing.workqueue import QueueClosedError, WorkQueue
from gpuruntime.testing.virtual_time import DeadlockError, run_virtual


async def rounds() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def waiting_workers(queue: WorkQueue[str], group: asyncio.TaskGroup, count: int) -> list[asyncio.Task[str]]:
    tasks = [group.create_task(queue.get()) for _ in range(count)]
    await rounds()
    return tasks


def end(tasks: list[asyncio.Task[str]]) -> None:
    for task in tasks:
        task.cancel()


async def test_as_many_workers_are_woken_as_there_are_keys() -> None:
    queue = WorkQueue[str]("units")
    async with asyncio.TaskGroup() as group:
        workers = await waiting_workers(queue, group, 4)

        for key in ("a", "b", "a"):
            queue.add(key)
        woken = queue._idle.woken
        await rounds()

        assert woken == 2
        assert [task.result() for task in workers if task.done()] == ["a", "b"]
        end(workers)


async def test_a_ready_key_is_returned_without_yielding_to_the_loop() -> None:
    queue = WorkQueue[str]("units")
    queue.add("a")

    getting = queue.get()
    with pytest.raises(StopIteration) as finished:
        getting.send(None)

    assert finished.value.value == "a"


async def test_a_later_get_does_not_take_the_key_of_a_woken_worker() -> None:
    queue = WorkQueue[str]("units")
    async with asyncio.TaskGroup() as group:
        (first,) = await waiting_workers(queue, group, 1)

        queue.add("a")
        asyncio.get_running_loop().call_soon(queue.add, "b")
        second = await queue.get()

        assert (first.result(), second) == ("a", "b")


async def test_one_woken_worker_is_enough_for_the_one_key_left() -> None:
    queue = WorkQueue[str]("units")
    async with asyncio.TaskGroup() as group:
        workers = await waiting_workers(queue, group, 2)

        queue.add("a")
        queue.pause("a")
        queue.add("b")
        woken = queue._idle.woken
        await rounds()

        assert woken == 1
        assert [task.result() for task in workers if task.done()] == ["b"]
        end(workers)


async def test_a_woken_worker_takes_what_is_most_urgent_when_it_runs() -> None:
    queue = WorkQueue[str]("units")
    async with asyncio.TaskGroup() as group:
        (worker,) = await waiting_workers(queue, group, 1)

        queue.add("a")
        queue.add("urgent", priority=10)

        assert await worker == "urgent"


@pytest.mark.parametrize("others", [0, 1])
async def test_a_worker_cancelled_after_an_add_loses_no_key(others: int) -> None:
    queue = WorkQueue[str]("units")
    async with asyncio.TaskGroup() as group:
        cancelled, *waiting = await waiting_workers(queue, group, 1 + others)

        queue.add("a")
        cancelled.cancel()
        await rounds()

        assert cancelled.cancelled()
        assert [task.result() for task in waiting] == ["a"] * others
        assert len(queue) == 1 - others


def test_a_timeout_of_get_loses_no_key() -> None:
    async def story() -> str:
        queue = WorkQueue[str]("units")
        queue.add_after("a", 5)
        with suppress(TimeoutError):
            async with asyncio.timeout(5):
                return await queue.get()
        return await queue.get()

    assert run_virtual(story()) == "a"


async def test_a_worker_woken_for_a_key_that_is_then_paused_keeps_waiting() -> None:
    queue = WorkQueue[str]("units")
    async with asyncio.TaskGroup() as group:
        (worker,) = await waiting_workers(queue, group, 1)

        queue.add("a")
        queue.pause("a")
        await rounds()
        kept_waiting = not worker.done()
        queue.resume("a")

        assert kept_waiting
        assert await worker == "a"


async def test_close_ends_every_wait_and_drops_queued_keys() -> None:
    queue = WorkQueue[str]("units")
    workers = [asyncio.create_task(queue.get()) for _ in range(3)]
    await rounds()

    queue.add_after("later", 3600)
    queue.add("a")
    queue.add("b", priority=3)
    queue.close()
    queue.close()
    outcomes = await asyncio.gather(*workers, return_exceptions=True)

    assert all(isinstance(outcome, QueueClosedError) for outcome in outcomes)
    assert (len(queue), queue.snapshot(), set(queue.counters.depth.values())) == (0, (), {0})


async def test_a_closed_queue_drops_adds_silently_and_returns_no_key() -> None:
    queue = WorkQueue[str]("units")
    queue.close()

    queue.add("a")
    queue.add_after("b", 1)
    queue.add_rate_limited("c")

    assert (len(queue), queue.failures("c"), queue.counters.adds, queue.counters.retries) == (0, 0, 0, 0)
    with pytest.raises(QueueClosedError, match="'units'"):
        await queue.get()
    with pytest.raises(QueueClosedError):
        await queue.get_with_causes()


def test_a_closed_queue_holds_no_timer() -> None:
    ended_at: list[float] = []

    async def story() -> None:
        queue = WorkQueue[str]("units")
        queue.add_after("a", 3600)
        queue.close()
        loop = asyncio.get_running_loop()
        try:
            await loop.create_future()
        finally:
            ended_at.append(loop.time())

    with pytest.raises(DeadlockError):
        run_virtual(story())

    assert ended_at == [0.0]


def test_drain_waits_for_running_keys_and_not_for_their_requeues() -> None:
    async def story() -> tuple[tuple[str, ...], float]:
        queue = WorkQueue[str]("units")
        loop = asyncio.get_running_loop()
        for key in ("short", "long"):
            queue.add(key)
        for seconds in (1, 7):
            loop.call_later(seconds, queue.done, await queue.get())
        queue.add("short")
        left = await queue.drain(30)
        return left, loop.time()

    assert run_virtual(story()) == ((), 7.0)


def test_drain_without_running_keys_takes_no_time() -> None:
    async def story() -> tuple[tuple[str, ...], float]:
        queue = WorkQueue[str]("units")
        queue.add("a")
        left = await queue.drain(30)
        return left, asyncio.get_running_loop().time()

    assert run_virtual(story()) == ((), 0.0)


def test_drain_returns_the_keys_that_did_not_finish_in_time() -> None:
    async def story() -> tuple[tuple[str, ...], float]:
        queue = WorkQueue[str]("units")
        queue.add("stuck")
        await queue.get()
        left = await queue.drain(30)
        time = asyncio.get_running_loop().time()
        queue.done("stuck")
        assert await queue.drain(0) == ()
        return left, time

    assert run_virtual(story()) == (("stuck",), 30.0)


async def test_a_finished_key_can_be_garbage_collected() -> None:
    class Key:
        pass

    queue = WorkQueue[Key]("units")
    key = Key()
    gone = weakref.ref(key)
    queue.add(key)
    queue.done(await queue.get())

    del key
    gc.collect()

    assert gone() is None


@define
class Account:
    """The runs that one key is owed, and those it got."""

    owed: int = 0
    runs: int = 0
    held: bool = False


class Fuzz:
    """Producers and workers that act at random."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.accounts = {key: Account() for key in "abcdefgh"}
        self.queue = WorkQueue[str]("fuzz", rate_limiter=RateLimiter(cap=16, jitter=0.5), chance=self.random.random)

    async def produce(self) -> None:
        for _ in range(40):
            await asyncio.sleep(self.random.expovariate(20))
            key, priority = self.random.choice("abcdefgh"), self.random.choice([LOW_PRIORITY, 0, 7])
            self.accounts[key].owed += 1
            if self.random.random() < 0.3:
                self.queue.add_after(key, self.random.uniform(0, 5), priority=priority)
            else:
                self.queue.add(key, priority=priority)

    async def work(self) -> None:
        with suppress(QueueClosedError):
            while True:
                key = await self.queue.get()
                account = self.accounts[key]
                assert not account.held, f"{key} is processed by two workers"
                account.held, account.owed = True, 0
                account.runs += 1
                await asyncio.sleep(self.random.choice([0, 0.001, 0.3]))
                if self.random.random() < 0.2:
                    account.owed += 1
                    self.queue.add_rate_limited(key)
                else:
                    self.queue.forget(key)
                account.held = False
                self.queue.done(key)


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None, print_blob=True)
def test_many_producers_and_workers_never_share_a_key_and_lose_no_add(seed: int) -> None:
    note(f"seed {seed}")

    async def story() -> tuple[tuple[str, ...], list[Account]]:
        fuzz = Fuzz(seed)
        async with asyncio.TaskGroup() as workers:
            for _ in range(12):
                workers.create_task(fuzz.work())
            async with asyncio.TaskGroup() as producers:
                for _ in range(10):
                    producers.create_task(fuzz.produce())
            # Longer than any delay that failures in a row can add up to.
            await asyncio.sleep(3600)
            left = await fuzz.queue.drain(1)
        return left, list(fuzz.accounts.values())

    left, accounts = run_virtual(story())

    assert left == ()
    assert all(account.runs and not account.owed for account in accounts)
