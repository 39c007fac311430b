"""The work queue against a naive model: lists that are searched and sorted each time.

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
class Request:
    """A requested run of the model."""

    key: str
    priority: int
    at: float
    number: int
    ready: bool
    causes: list[Hashable]


class NaiveQueue:
    """The promises of the queue, implemented naively."""

    def __init__(self) -> None:
        self.now = 0.0
        self.requests: dict[str, Request] = {}
        self.running: dict[str, float] = {}
        self.paused: set[str] = set()
        self.failures: dict[str, int] = {}
        self.idle = 0
        self.became_ready = 0
        self.number = 0

    def request(self, key: str, at: float, priority: int, cause: Hashable | None) -> None:
        self.number += 1
        known = self.requests.get(key)
        request = self.requests[key] = known or Request(key, priority, at, self.number, ready=False, causes=[])
        request.priority = max(request.priority, priority)
        if at < request.at:
            request.at, request.number = at, self.number
        if cause is not None and cause not in request.causes:
            request.causes.append(cause)
        self.ripen()

    def ripen(self) -> None:
        due = [request for request in self.requests.values() if not request.ready and request.at <= self.now]
        for request in sorted(due, key=lambda request: (request.at, request.number)):
            self.number += 1
            self.became_ready += 1
            request.ready, request.number, request.at = True, self.number, self.now

    def candidates(self) -> list[Request]:
        held = self.running.keys() | self.paused
        free = [request for request in self.requests.values() if request.ready and request.key not in held]
        return sorted(free, key=lambda request: (request.at - request.priority * AGEING, request.number))

    def take(self) -> WorkItem[str]:
        first, *others = self.candidates()
        for other in others:
            # The bound of `rank`, stated independently.
            assert first.at <= other.at or first.at - other.at <= (first.priority - other.priority) * AGEING + 1e-9
        del self.requests[first.key]
        self.running[first.key] = self.now
        attempt = self.failures.get(first.key, 0) + 1
        return WorkItem(first.key, first.priority, attempt, self.now - first.at, tuple(first.causes), 0)

    def hand_to_idle(self) -> list[WorkItem[str]]:
        items = []
        while self.idle and self.candidates():
            self.idle -= 1
            items.append(self.take())
        return items

    def pass_time(self, until: float) -> list[WorkItem[str]]:
        items = []
        for moment in sorted(
            {request.at for request in self.requests.values() if self.now < request.at <= until} | {until}
        ):
            self.now = moment
            self.ripen()
            items += self.hand_to_idle()
        return items


class QueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualTimeLoop()
        self.model = NaiveQueue()
        self.idle: list[asyncio.Task[None]] = []
        self.taken: list[WorkItem[str]] = []

    @initialize()
    def open(self) -> None:
        async def make() -> WorkQueue[str]:
            return WorkQueue("model", rate_limiter=LIMITS)

        self.queue = self.run(make())

    def run(self, story: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(story)

    async def take_one(self) -> None:
        item = await self.queue.get_with_causes()
        self.taken.append(item)

    def settle(self, expected: list[WorkItem[str]]) -> None:
        """Let the workers run, and compare what they took with what the model predicts."""

        async def a_few_rounds() -> None:
            for _ in range(4):
                await asyncio.sleep(0)

        self.run(a_few_rounds())
        self.idle = [task for task in self.idle if not task.done()]
        taken, self.taken = self.taken, []
        assert taken == expected
        assert len(self.idle) == self.model.idle

    @rule(key=KEYS, priority=PRIORITIES, cause=CAUSES)
    def add(self, key: str, priority: int, cause: str | None) -> None:
        self.queue.add(key, priority=priority, cause=cause)
        self.model.request(key, self.model.now, priority, cause)
        self.settle(self.model.hand_to_idle())

    @rule(keys=st.lists(st.tuples(KEYS, PRIORITIES), max_size=6), cancelled=INDEX)
    def add_many_while_a_worker_is_cancelled(self, keys: list[tuple[str, int]], cancelled: int) -> None:
        for key, priority in keys:
            self.queue.add(key, priority=priority)
            self.model.request(key, self.model.now, priority, None)
        if self.idle:
            self.idle[cancelled % len(self.idle)].cancel()
            self.model.idle -= 1
        self.settle(self.model.hand_to_idle())

    @rule(key=KEYS, seconds=DELAYS, priority=PRIORITIES, cause=CAUSES)
    def add_after(self, key: str, seconds: float, priority: int, cause: str | None) -> None:
        self.queue.add_after(key, seconds, priority=priority, cause=cause)
        self.model.request(key, self.model.now + max(seconds, 0), priority, cause)
        self.settle(self.model.hand_to_idle())

    @rule(key=KEYS, priority=PRIORITIES)
    def add_rate_limited(self, key: str, priority: int) -> None:
        failures = self.model.failures.get(key, 0)
        self.queue.add_rate_limited(key, priority=priority)
        self.model.failures[key] = failures + 1
        self.model.request(key, self.model.now + min(2.0**failures / 64, 16), priority, None)
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
            self.model.request(each, self.model.now, 0, None)
        self.queue.pause(key)
        self.model.paused.add(key)
        self.settle(self.model.hand_to_idle())

    @rule(key=KEYS)
    def resume(self, key: str) -> None:
        self.queue.resume(key)
        self.model.paused.discard(key)
        self.settle(self.model.hand_to_idle())

    @rule()
    @precondition(lambda self: self.model.candidates())
    def take(self) -> None:
        assert self.run(self.queue.get_with_causes()) == self.model.take()

    @rule()
    @precondition(lambda self: not self.model.candidates() and self.model.idle < 4)
    def wait(self) -> None:
        self.idle.append(self.loop.create_task(self.take_one()))
        self.model.idle += 1
        self.settle([])

    @rule(index=INDEX)
    @precondition(lambda self: self.model.running)
    def done(self, index: int) -> None:
        key = list(self.model.running)[index % len(self.model.running)]
        self.queue.done(key)
        del self.model.running[key]
        self.settle(self.model.hand_to_idle())

    @rule(seconds=DELAYS.filter(lambda seconds: seconds > 0))
    def pass_time(self, seconds: float) -> None:
        expected = self.model.pass_time(self.model.now + seconds)
        self.run(asyncio.sleep(seconds))
        assert self.loop.time() == self.model.now
        self.settle(expected)

    @invariant()
    def snapshot_equals_the_model(self) -> None:
        model = self.model
        views = {view.key: view for view in self.queue.snapshot()}
        assert views.keys() == model.requests.keys() | model.running.keys() | model.paused
        for key, view in views.items():
            request = model.requests.get(key)
            requested = KeyState.IDLE if request is None else KeyState.READY if request.ready else KeyState.WAITING
            assert view.state == (KeyState.RUNNING if key in model.running else requested)
            assert view.due_in == (None if request is None else request.at - model.now)
            assert view.running_for == (model.now - model.running[key] if key in model.running else None)
            assert (view.paused, view.failures) == (key in model.paused, model.failures.get(key, 0))
            assert request is None or view.priority == request.priority

    @invariant()
    def counters_equal_the_model(self) -> None:
        ready = [request.priority for request in self.model.requests.values() if request.ready]
        assert {priority: depth for priority, depth in self.queue.counters.depth.items() if depth} == {
            priority: ready.count(priority) for priority in ready
        }
        assert len(self.queue) == len(self.model.requests)
        assert self.queue.counters.adds == self.model.became_ready
        assert sum(self.queue.counters.waited.counts) == sum(self.queue.counters.worked.counts) + len(
            self.model.running
        )

    def teardown(self) -> None:
        try:
            self.finish()
        finally:
            for task in self.idle:
                task.cancel()
            self.run(_outcomes(self.idle))
            self.loop.close()

    def finish(self) -> None:
        """Every requested run happens exactly once, and closing ends every wait."""
        for key in sorted(self.model.paused):
            self.resume(key)
        while self.model.requests or self.model.running:
            while self.model.running:
                self.done(0)
            while self.model.candidates():
                self.take()
            if self.model.requests and not self.model.running:
                self.pass_time(min(request.at for request in self.model.requests.values()) - self.model.now)
        assert self.queue.snapshot() == ()
        self.queue.close()
        for outcome in self.run(_outcomes(self.idle)):
            assert isinstance(outcome, QueueClosedError)


async def _outcomes(tasks: list[asyncio.Task[None]]) -> list[BaseException | None]:
    return await asyncio.gather(*tasks, return_exceptions=True)


TestTheQueueIsItsModel = QueueMachine.TestCase
TestTheQueueIsItsModel.settings = settings(max_examples=150, stateful_step_count=60, deadline=None, print_blob=True)
