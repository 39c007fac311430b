"""The workqueue against a model that is too simple to be wrong: lists, searched and sorted each time anew.

Times are multiples of 1/64 s, so that model and queue compute them exactly. A failure prints the steps and a blob for
`hypothesis.reproduce_failure`.
"""

import asyncio
from collections.abc import Coroutine, Hashable
from typing import Any, TypeVar

from attrs import define
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gpuruntime.control.queueing.priorities import AGEING, LOW_PRIORITY
from gpuruntime.control.queueing.rate_limiter import RateLimiter
from gpuruntime.control.queueing.work_item import KeyState, WorkItem
from gpuruntime.control.queueing.workqueue import QueueClosedError, WorkQueue
from gpuruntime.testing.virtual_time import VirtualTimeLoop

T = TypeVar("T")

LIMITS = RateLimiter(base=1 / 64, cap=16.0)
KEYS = st.sampled_from("abcdef")
PRIORITIES = st.sampled_from([LOW_PRIORITY, -3, 0, 0, 0, 1, 2, 50])
CAUSES = st.none() | st.sampled_from(["spec", "child", "resync"])
DELAYS = st.integers(-2, 64 * 40).map(lambda ticks: ticks / 64)
INDEX = st.integers(0, 10)


@define
class Ask:
    """A run that the model owes."""

    key: str
    priority: int
    at: float
    number: int
    ready: bool
    causes: list[Hashable]


class NaiveQueue:
    """What the queue promises, in the fewest words."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asks: dict[str, Ask] = {}
        self.running: dict[str, float] = {}
        self.paused: set[str] = set()
        self.failures: dict[str, int] = {}
        self.sleepers = 0
        self.became_ready = 0
        self.number = 0

    def ask(self, key: str, at: float, priority: int, cause: Hashable | None) -> None:
        self.number += 1
        known = self.asks.get(key)
        ask = self.asks[key] = known or Ask(key, priority, at, self.number, ready=False, causes=[])
        ask.priority = max(ask.priority, priority)
        if at < ask.at:
            ask.at, ask.number = at, self.number
        if cause is not None and cause not in ask.causes:
            ask.causes.append(cause)
        self.ripen()

    def ripen(self) -> None:
        due = [ask for ask in self.asks.values() if not ask.ready and ask.at <= self.now]
        for ask in sorted(due, key=lambda ask: (ask.at, ask.number)):
            self.number += 1
            self.became_ready += 1
            ask.ready, ask.number, ask.at = True, self.number, self.now

    def candidates(self) -> list[Ask]:
        held = self.running.keys() | self.paused
        free = [ask for ask in self.asks.values() if ask.ready and ask.key not in held]
        return sorted(free, key=lambda ask: (ask.at - ask.priority * AGEING, ask.number))

    def take(self) -> WorkItem[str]:
        first, *others = self.candidates()
        for other in others:
            # The bound that starvation has, in its own words.
            assert first.at <= other.at or first.at - other.at <= (first.priority - other.priority) * AGEING + 1e-9
        del self.asks[first.key]
        self.running[first.key] = self.now
        attempt = self.failures.get(first.key, 0) + 1
        return WorkItem(first.key, first.priority, attempt, self.now - first.at, tuple(first.causes), 0)

    def hand_to_sleepers(self) -> list[WorkItem[str]]:
        turns = []
        while self.sleepers and self.candidates():
            self.sleepers -= 1
            turns.append(self.take())
        return turns

    def pass_time(self, until: float) -> list[WorkItem[str]]:
        turns = []
        for moment in sorted({ask.at for ask in self.asks.values() if self.now < ask.at <= until} | {until}):
            self.now = moment
            self.ripen()
            turns += self.hand_to_sleepers()
        return turns


class QueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualTimeLoop()
        self.model = NaiveQueue()
        self.sleepers: list[asyncio.Task[None]] = []
        self.taken: list[WorkItem[str]] = []

    @initialize()
    def open(self) -> None:
        async def make() -> WorkQueue[str]:
            return WorkQueue("model", rate_limiter=LIMITS)

        self.queue = self.run(make())

    def run(self, story: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(story)

    async def take_one(self) -> None:
        turn = await self.queue.get_with_causes()
        self.taken.append(turn)

    def settle(self, expected: list[WorkItem[str]]) -> None:
        """Let every worker run that can, and compare what they took with what the model gave."""

        async def a_few_rounds() -> None:
            for _ in range(4):
                await asyncio.sleep(0)

        self.run(a_few_rounds())
        self.sleepers = [task for task in self.sleepers if not task.done()]
        taken, self.taken = self.taken, []
        assert taken == expected
        assert len(self.sleepers) == self.model.sleepers

    @rule(key=KEYS, priority=PRIORITIES, cause=CAUSES)
    def add(self, key: str, priority: int, cause: str | None) -> None:
        self.queue.add(key, priority=priority, cause=cause)
        self.model.ask(key, self.model.now, priority, cause)
        self.settle(self.model.hand_to_sleepers())

    @rule(keys=st.lists(st.tuples(KEYS, PRIORITIES), max_size=6), cancelled=INDEX)
    def add_many_while_a_worker_is_cancelled(self, keys: list[tuple[str, int]], cancelled: int) -> None:
        for key, priority in keys:
            self.queue.add(key, priority=priority)
            self.model.ask(key, self.model.now, priority, None)
        if self.sleepers:
            self.sleepers[cancelled % len(self.sleepers)].cancel()
            self.model.sleepers -= 1
        self.settle(self.model.hand_to_sleepers())

    @rule(key=KEYS, seconds=DELAYS, priority=PRIORITIES, cause=CAUSES)
    def add_after(self, key: str, seconds: float, priority: int, cause: str | None) -> None:
        self.queue.add_after(key, seconds, priority=priority, cause=cause)
        self.model.ask(key, self.model.now + max(seconds, 0), priority, cause)
        self.settle(self.model.hand_to_sleepers())

    @rule(key=KEYS, priority=PRIORITIES)
    def add_rate_limited(self, key: str, priority: int) -> None:
        failures = self.model.failures.get(key, 0)
        self.queue.add_rate_limited(key, priority=priority)
        self.model.failures[key] = failures + 1
        self.model.ask(key, self.model.now + min(2.0**failures / 64, 16), priority, None)
        self.settle([])

    @rule(key=KEYS)
    def forget(self, key: str) -> None:
        self.queue.forget(key)
        self.model.failures.pop(key, None)

    @rule(key=KEYS)
    def pause(self, key: str) -> None:
        self.queue.pause(key)
        self.model.paused.add(key)

    @rule(key=KEYS, other=KEYS)
    def add_and_pause_before_the_woken_worker_runs(self, key: str, other: str) -> None:
        for each in (key, other):
            self.queue.add(each)
            self.model.ask(each, self.model.now, 0, None)
        self.queue.pause(key)
        self.model.paused.add(key)
        self.settle(self.model.hand_to_sleepers())

    @rule(key=KEYS)
    def resume(self, key: str) -> None:
        self.queue.resume(key)
        self.model.paused.discard(key)
        self.settle(self.model.hand_to_sleepers())

    @rule()
    @precondition(lambda self: self.model.candidates())
    def take(self) -> None:
        assert self.run(self.queue.get_with_causes()) == self.model.take()

    @rule()
    @precondition(lambda self: not self.model.candidates() and self.model.sleepers < 4)
    def sleep(self) -> None:
        self.sleepers.append(self.loop.create_task(self.take_one()))
        self.model.sleepers += 1
        self.settle([])

    @rule(index=INDEX)
    @precondition(lambda self: self.model.running)
    def done(self, index: int) -> None:
        key = list(self.model.running)[index % len(self.model.running)]
        self.queue.done(key)
        del self.model.running[key]
        self.settle(self.model.hand_to_sleepers())

    @rule(seconds=DELAYS.filter(lambda seconds: seconds > 0))
    def pass_time(self, seconds: float) -> None:
        expected = self.model.pass_time(self.model.now + seconds)
        self.run(asyncio.sleep(seconds))
        assert self.loop.time() == self.model.now
        self.settle(expected)

    @invariant()
    def looks_as_the_model_says(self) -> None:
        model = self.model
        views = {view.key: view for view in self.queue.snapshot()}
        assert views.keys() == model.asks.keys() | model.running.keys() | model.paused
        for key, view in views.items():
            ask = model.asks.get(key)
            asked = KeyState.IDLE if ask is None else KeyState.READY if ask.ready else KeyState.WAITING
            assert view.state == (KeyState.RUNNING if key in model.running else asked)
            assert view.due_in == (None if ask is None else ask.at - model.now)
            assert view.running_for == (model.now - model.running[key] if key in model.running else None)
            assert (view.paused, view.failures) == (key in model.paused, model.failures.get(key, 0))
            assert ask is None or view.priority == ask.priority

    @invariant()
    def counts_what_the_model_counts(self) -> None:
        ready = [ask.priority for ask in self.model.asks.values() if ask.ready]
        assert {priority: depth for priority, depth in self.queue.counters.depth.items() if depth} == {
            priority: ready.count(priority) for priority in ready
        }
        assert len(self.queue) == len(self.model.asks)
        assert self.queue.counters.adds == self.model.became_ready
        assert sum(self.queue.counters.waited.counts) == sum(self.queue.counters.worked.counts) + len(
            self.model.running
        )

    def teardown(self) -> None:
        try:
            self.finish()
        finally:
            for task in self.sleepers:
                task.cancel()
            self.run(_outcomes(self.sleepers))
            self.loop.close()

    def finish(self) -> None:
        """Whatever happened: every run that is owed comes, once, and closing ends everybody's wait."""
        for key in sorted(self.model.paused):
            self.resume(key)
        while self.model.asks or self.model.running:
            while self.model.running:
                self.done(0)
            while self.model.candidates():
                self.take()
            if self.model.asks and not self.model.running:
                self.pass_time(min(ask.at for ask in self.model.asks.values()) - self.model.now)
        assert self.queue.snapshot() == ()
        self.queue.close()
        for outcome in self.run(_outcomes(self.sleepers)):
            assert isinstance(outcome, QueueClosedError)


async def _outcomes(tasks: list[asyncio.Task[None]]) -> list[BaseException | None]:
    return await asyncio.gather(*tasks, return_exceptions=True)


TestTheQueueIsItsModel = QueueMachine.TestCase
TestTheQueueIsItsModel.settings = settings(max_examples=150, stateful_step_count=60, deadline=None, print_blob=True)
