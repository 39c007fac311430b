"""Which changes a handler that raises gets again, in which order, and how many of them are kept."""

import asyncio

from gpuruntime.aio.retries import Retries
from gpuruntime.control.informers.changes import Change
from gpuruntime.control.informers.indexer import Entry
from gpuruntime.control.informers.storage import Projected
from gpuruntime.control.informers.subscription import Subscription
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.meta.decode_errors import DecodeError
from gpuruntime.meta.identity import ObjectKey
from gpuruntime.testing.virtual_time import run_virtual

STORAGE: Projected[int] = Projected(ConfigMap.KIND, lambda _: 0)
KEY = ObjectKey("a", "one")


def entry(number: int, uid: str = "u") -> Entry:
    return Entry(KEY, uid, str(number), 1, number, (), None)


def step(before: int | None, after: int | None) -> Change[int]:
    old, new = (None if number is None else entry(number) for number in (before, after))
    return Change(STORAGE, old, new)


class Failing:
    """A handler that raises while it fails, and notes what it takes."""

    def __init__(self, error: Exception | None = None) -> None:
        self.fails = True
        self._error = error or RuntimeError("not now")
        self.taken: list[tuple[int | None, int | None]] = []

    def __call__(self, change: Change[int]) -> None:
        if self.fails:
            raise self._error
        self.taken.append((change.before, change.after))


def made(handler: Failing) -> tuple[Subscription[int], Retries[tuple[Subscription[int], ObjectKey]]]:
    retries: Retries[tuple[Subscription[int], ObjectKey]] = Retries()
    return Subscription(handler, "failing", retries), retries


def test_changes_that_waited_are_delivered_in_order_before_a_new_one() -> None:
    async def story() -> list[tuple[int | None, int | None]]:
        handler = Failing()
        subscription, _ = made(handler)
        for change in (step(None, 1), step(1, 2), step(2, None)):
            subscription.handle(change)
        handler.fails = False
        subscription.handle(step(None, 4))
        return handler.taken

    assert run_virtual(story()) == [(None, 1), (1, 2), (2, None), (None, 4)]


def test_an_object_that_keeps_changing_costs_bounded_memory_and_ends_with_its_newest_state() -> None:
    async def story() -> list[tuple[int | None, int | None]]:
        handler = Failing()
        subscription, _ = made(handler)
        subscription.handle(step(None, 0))
        for number in range(1000):
            subscription.handle(step(number, number + 1))
        subscription.handle(step(1000, None))
        handler.fails = False
        subscription.retry(KEY)
        return handler.taken

    taken = run_virtual(story())

    assert len(taken) == 17
    assert taken[:2] == [(None, 0), (0, 1)]
    assert taken[-2:] == [(14, 1000), (1000, None)]


def test_it_names_what_it_fails_on_until_everything_is_delivered() -> None:
    async def story() -> list[tuple[int, str]]:
        handler = Failing()
        subscription, _ = made(handler)
        subscription.handle(step(None, 1))
        said = [(subscription.retrying, subscription.failing)]
        handler.fails = False
        subscription.retry(KEY)
        return [*said, (subscription.retrying, subscription.failing)]

    assert run_virtual(story()) == [
        (1, "handler failing fails on a/one (RuntimeError: not now), retrying 1"),
        (0, ""),
    ]


def test_a_closed_subscription_delivers_nothing_more() -> None:
    async def story() -> tuple[int, bool]:
        handler = Failing()
        subscription, retries = made(handler)
        subscription.handle(step(None, 1))
        subscription.close()
        subscription.retry(KEY)
        waiting = asyncio.ensure_future(retries.next())
        await asyncio.sleep(100)
        is_tried = waiting.done()
        waiting.cancel()
        return subscription.failures, is_tried

    assert run_virtual(story()) == (1, False)


def test_an_object_that_is_added_and_deleted_again_and_again_costs_bounded_memory() -> None:
    async def story() -> list[tuple[int | None, int | None]]:
        handler = Failing()
        subscription, _ = made(handler)
        for number in range(1000):
            subscription.handle(step(None, number))
            subscription.handle(step(number, None))
        subscription.handle(step(None, 1000))
        handler.fails = False
        subscription.retry(KEY)
        return handler.taken

    taken = run_virtual(story())

    assert len(taken) <= 18
    assert taken[:2] == [(None, 0), (0, None)]
    assert taken[-1] == (None, 1000)


def test_a_handler_that_fails_to_decode_something_else_is_retried() -> None:
    async def story() -> tuple[int, int, list[tuple[int | None, int | None]]]:
        handler = Failing(DecodeError("an annotation", ["is no JSON"]))
        subscription, _ = made(handler)
        subscription.handle(step(None, 1))
        waiting = subscription.retrying
        handler.fails = False
        subscription.retry(KEY)
        return waiting, subscription.retrying, handler.taken

    assert run_virtual(story()) == (1, 0, [(None, 1)])
