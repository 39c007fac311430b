"""Which handler gets what in which order, with a store that changes meanwhile: in virtual time, with numbers."""

import asyncio
import itertools
import logging
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.control.informers.changes import Change
from gpuruntime.control.informers.dispatcher import Dispatcher
from gpuruntime.control.informers.indexer import Entry
from gpuruntime.control.informers.storage import Projected
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.meta.identity import ObjectKey
from gpuruntime.testing.virtual_time import VirtualTimeLoop, run_virtual

STORAGE: Projected[int] = Projected(ConfigMap.KIND, lambda raw: int(raw["number"]))


def change(number: int) -> Change[int]:
    return Change(STORAGE, None, Entry(ObjectKey("a", str(number)), "u", str(number + 1), 0, number, (), None))


def numbers(count: int) -> list[Change[int]]:
    return [change(number) for number in range(count)]


class Listener:
    """A handler that takes `seconds` of the loop's time for each change."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.heard: list[int] = []
        self._seconds = seconds

    def __call__(self, change_: Change[int]) -> None:
        self.heard.append(change_.after if change_.after is not None else -1)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        loop._jumping.now += self._seconds  # this is how long it blocks


def nothing() -> list[Change[int]]:
    return []


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_every_handler_gets_every_change_in_order() -> None:
    async def story() -> list[list[int]]:
        dispatcher, listeners = Dispatcher[int](), [Listener(), Listener()]
        for listener in listeners:
            await dispatcher.subscribe(listener, nothing)
        async with dispatcher.lock:
            dispatcher.dispatch(numbers(2))
            await dispatcher.dispatch_all([change(2), change(3)])
        return [listener.heard for listener in listeners]

    assert run_virtual(story()) == [[0, 1, 2, 3]] * 2


def test_a_handler_of_one_object_gets_no_change_of_another() -> None:
    async def story() -> tuple[list[int], list[int]]:
        dispatcher, one, all_ = Dispatcher[int](), Listener(), Listener()
        await dispatcher.subscribe(one, lambda: [change(3)], ObjectKey("a", "3"))
        await dispatcher.subscribe(all_, nothing)
        async with dispatcher.lock:
            dispatcher.dispatch(numbers(5))
            await dispatcher.dispatch_all(numbers(4))
            dispatcher.unsubscribe(one, ObjectKey("a", "3"))
            dispatcher.dispatch([change(3)])
        return one.heard, all_.heard

    assert run_virtual(story()) == ([3, 3, 3], [*range(5), *range(4), 3])


def test_a_handler_that_raises_is_counted_and_logged_and_others_are_not_affected(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(_change: Change[int]) -> None:
        raise RuntimeError("a bug")

    async def story() -> tuple[list[int], int]:
        dispatcher, listener = Dispatcher[int](), Listener()
        await dispatcher.subscribe(broken, nothing)
        await dispatcher.subscribe(listener, nothing)
        async with dispatcher.lock:
            dispatcher.dispatch(numbers(2))
        return listener.heard, dispatcher.failures

    with caplog.at_level(logging.ERROR):
        assert run_virtual(story()) == ([0, 1], 2)

    assert "RuntimeError: a bug" in caplog.text
    assert caplog.records[0].__dict__["change"] == "<added ConfigMap a/0 at 1>"


def test_a_handler_that_raises_on_an_initial_change_is_subscribed() -> None:
    heard: list[int] = []

    def nervous(change_: Change[int]) -> None:
        heard.append(change_.after or 0)
        if change_.after == 0:
            raise RuntimeError("a bug")

    async def story() -> int:
        dispatcher = Dispatcher[int]()
        await dispatcher.subscribe(nervous, lambda: numbers(2))
        async with dispatcher.lock:
            dispatcher.dispatch([change(2)])
        return dispatcher.failures

    assert run_virtual(story()) == 1
    assert heard == [0, 1, 2]


@given(joins=st.lists(st.integers(0, 40), min_size=1, max_size=6), batches=st.lists(st.integers(0, 8), max_size=8))
def test_a_handler_that_subscribes_during_a_dispatch_misses_no_change_and_gets_none_twice(
    joins: list[int], batches: list[int]
) -> None:
    async def story() -> tuple[list[int], list[Listener]]:
        dispatcher, present = Dispatcher[int](), list[int]()
        listeners = [Listener(0.003) for _ in joins]

        async def change_the_store() -> None:
            fresh = itertools.count()
            for size in batches:
                async with dispatcher.lock:
                    batch = list(itertools.islice(fresh, size))
                    present.extend(batch)
                    await dispatcher.dispatch_all([change(number) for number in batch])
                await asyncio.sleep(0)

        async def join(listener: Listener, turns: int) -> None:
            for _ in range(turns):
                await asyncio.sleep(0)
            await dispatcher.subscribe(listener, lambda: [change(number) for number in present])

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(change_the_store())
            for listener, turns in zip(listeners, joins, strict=True):
                tasks.create_task(join(listener, turns))
        return present, listeners

    present, listeners = run_virtual(story())

    assert [listener.heard for listener in listeners] == [present] * len(listeners)


def test_a_long_dispatch_yields_to_the_loop_every_few_milliseconds() -> None:
    async def story() -> tuple[int, int]:
        dispatcher, listener, turns = Dispatcher[int](), Listener(0.001), 0
        await dispatcher.subscribe(listener, nothing)
        dispatching = asyncio.create_task(dispatch_600(dispatcher))
        while not dispatching.done():
            await asyncio.sleep(0)
            turns += 1
        return len(listener.heard), turns

    async def dispatch_600(dispatcher: Dispatcher[int]) -> None:
        async with dispatcher.lock:
            await dispatcher.dispatch_all(numbers(600))

    heard, turns = run_virtual(story())

    assert heard == 600
    assert turns >= 100


def test_an_unsubscribed_handler_gets_nothing_more_not_even_a_change_under_way() -> None:
    async def story(actor_first: bool) -> list[int]:
        dispatcher, leaver = Dispatcher[int](), Listener()

        def unsubscribing(change_: Change[int]) -> None:
            if change_.after == 1:
                dispatcher.unsubscribe(leaver)

        handlers: list[Callable[[Change[int]], None]] = (
            [unsubscribing, leaver] if actor_first else [leaver, unsubscribing]
        )
        for handler in handlers:
            await dispatcher.subscribe(handler, nothing)
        async with dispatcher.lock:
            await dispatcher.dispatch_all(numbers(4))
        return leaver.heard

    assert run_virtual(story(actor_first=True)) == [0]
    assert run_virtual(story(actor_first=False)) == [0, 1]


def test_a_handler_may_unsubscribe_itself() -> None:
    async def story() -> tuple[list[int], list[int]]:
        dispatcher, heard, other = Dispatcher[int](), list[int](), Listener()

        def once(change_: Change[int]) -> None:
            heard.append(change_.after or 0)
            dispatcher.unsubscribe(once)

        await dispatcher.subscribe(once, nothing)
        await dispatcher.subscribe(other, nothing)
        async with dispatcher.lock:
            dispatcher.dispatch(numbers(3))
        return heard, other.heard

    assert run_virtual(story()) == ([0], [0, 1, 2])


def test_a_cancelled_subscription_is_dropped_and_blocks_no_other() -> None:
    async def story() -> tuple[list[int], list[int]]:
        dispatcher, cancelled, other = Dispatcher[int](), Listener(0.01), Listener()
        joining = asyncio.create_task(dispatcher.subscribe(cancelled, lambda: numbers(5)))
        await asyncio.sleep(0)
        joining.cancel()
        await asyncio.wait([joining])
        await dispatcher.subscribe(other, nothing)
        async with dispatcher.lock:
            dispatcher.dispatch([change(7)])
        with pytest.raises(ValueError, match="handler"):
            dispatcher.unsubscribe(cancelled)
        return cancelled.heard, other.heard

    heard, others = run_virtual(story())

    assert 7 not in heard
    assert others == [7]


def test_no_handler_subscribes_between_a_change_and_its_dispatch() -> None:
    async def story() -> list[int]:
        dispatcher, listener, present = Dispatcher[int](), Listener(), [0]
        async with dispatcher.lock:
            joining = asyncio.create_task(
                dispatcher.subscribe(listener, lambda: [change(number) for number in present])
            )
            await settle()
            present.append(1)
            dispatcher.dispatch([change(1)])
        await joining
        return listener.heard

    assert run_virtual(story()) == [0, 1]
