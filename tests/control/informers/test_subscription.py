"""What a subscriber that raises is given again, in which order, and how much of it is kept."""

import asyncio

from gpuruntime.aio.retries import Retries
from gpuruntime.control.informers.changes import Change
from gpuruntime.control.informers.shelf import Entry
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


class Sulking:
    """A handler that raises while it sulks, and notes what it takes."""

    def __init__(self, error: Exception | None = None) -> None:
        self.sulks = True
        self._error = error or RuntimeError("not now")
        self.taken: list[tuple[int | None, int | None]] = []

    def __call__(self, change: Change[int]) -> None:
        if self.sulks:
            raise self._error
        self.taken.append((change.before, change.after))


def made(handler: Sulking) -> tuple[Subscription[int], Retries[tuple[Subscription[int], ObjectKey]]]:
    pending: Retries[tuple[Subscription[int], ObjectKey]] = Retries()
    return Subscription(handler, "sulking", pending), pending


def test_what_waited_is_taken_in_order_before_what_comes() -> None:
    async def story() -> list[tuple[int | None, int | None]]:
        handler = Sulking()
        subscription, _ = made(handler)
        for change in (step(None, 1), step(1, 2), step(2, None)):
            subscription.offer(change)
        handler.sulks = False
        subscription.offer(step(None, 4))
        return handler.taken

    assert run_virtual(story()) == [(None, 1), (1, 2), (2, None), (None, 4)]


def test_an_object_that_never_rests_costs_bounded_memory_and_ends_with_its_newest_state() -> None:
    async def story() -> list[tuple[int | None, int | None]]:
        handler = Sulking()
        subscription, _ = made(handler)
        subscription.offer(step(None, 0))
        for number in range(1000):
            subscription.offer(step(number, number + 1))
        subscription.offer(step(1000, None))
        handler.sulks = False
        subscription.retry(KEY)
        return handler.taken

    taken = run_virtual(story())

    assert len(taken) == 17
    assert taken[:2] == [(None, 0), (0, 1)]
    assert taken[-2:] == [(14, 1000), (1000, None)]


def test_it_says_what_it_fails_at_until_it_has_taken_everything() -> None:
    async def story() -> list[tuple[int, str]]:
        handler = Sulking()
        subscription, _ = made(handler)
        subscription.offer(step(None, 1))
        said = [(subscription.retrying, subscription.trouble)]
        handler.sulks = False
        subscription.retry(KEY)
        return [*said, (subscription.retrying, subscription.trouble)]

    assert run_virtual(story()) == [
        (1, "sulking fails on a/one (RuntimeError: not now), 1 to be tried again"),
        (0, ""),
    ]


def test_one_that_is_closed_is_given_nothing_more() -> None:
    async def story() -> tuple[int, bool]:
        handler = Sulking()
        subscription, pending = made(handler)
        subscription.offer(step(None, 1))
        subscription.close()
        subscription.retry(KEY)
        waiting = asyncio.ensure_future(pending.next())
        await asyncio.sleep(100)
        is_tried = waiting.done()
        waiting.cancel()
        return subscription.failures, is_tried

    assert run_virtual(story()) == (1, False)


def test_an_object_that_comes_and_goes_costs_bounded_memory_too() -> None:
    async def story() -> list[tuple[int | None, int | None]]:
        handler = Sulking()
        subscription, _ = made(handler)
        for number in range(1000):
            subscription.offer(step(None, number))
            subscription.offer(step(number, None))
        subscription.offer(step(None, 1000))
        handler.sulks = False
        subscription.retry(KEY)
        return handler.taken

    taken = run_virtual(story())

    assert len(taken) <= 18
    assert taken[:2] == [(None, 0), (0, None)]
    assert taken[-1] == (None, 1000)


def test_a_handler_that_fails_to_decode_something_else_has_another_try() -> None:
    async def story() -> tuple[int, int, list[tuple[int | None, int | None]]]:
        handler = Sulking(DecodeError("an annotation", ["is no JSON"]))
        subscription, _ = made(handler)
        subscription.offer(step(None, 1))
        waiting = subscription.retrying
        handler.sulks = False
        subscription.retry(KEY)
        return waiting, subscription.retrying, handler.taken

    assert run_virtual(story()) == (1, 0, [(None, 1)])
