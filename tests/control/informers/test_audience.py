"""Who is told what in which order, with a store that changes meanwhile: in virtual time, with changes of numbers."""

import asyncio
import itertools
import logging
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.control.informers.audience import Audience
from gpuruntime.control.informers.changes import Change
from gpuruntime.control.informers.shelf import Entry
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
    """A subscriber that takes `seconds` of the loop's time for each change."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.heard: list[int] = []
        self._seconds = seconds

    def __call__(self, told: Change[int]) -> None:
        self.heard.append(told.after if told.after is not None else -1)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        loop._jumping.now += self._seconds  # this is how long it blocks


def nobody() -> list[Change[int]]:
    return []


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_everybody_is_told_every_change_in_order() -> None:
    async def story() -> list[list[int]]:
        audience, listeners = Audience[int](), [Listener(), Listener()]
        for listener in listeners:
            await audience.join(listener, nobody)
        async with audience.telling:
            audience.tell(numbers(2))
            await audience.tell_many([change(2), change(3)])
        return [listener.heard for listener in listeners]

    assert run_virtual(story()) == [[0, 1, 2, 3]] * 2


def test_one_that_listens_to_an_object_is_asked_about_no_other() -> None:
    async def story() -> tuple[list[int], list[int]]:
        audience, one, all_ = Audience[int](), Listener(), Listener()
        await audience.join(one, lambda: [change(3)], ObjectKey("a", "3"))
        await audience.join(all_, nobody)
        async with audience.telling:
            audience.tell(numbers(5))
            await audience.tell_many(numbers(4))
            audience.leave(one, ObjectKey("a", "3"))
            audience.tell([change(3)])
        return one.heard, all_.heard

    assert run_virtual(story()) == ([3, 3, 3], [*range(5), *range(4), 3])


def test_a_subscriber_that_raises_is_counted_and_logged_and_nobody_else_notices(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(_told: Change[int]) -> None:
        raise RuntimeError("a bug")

    async def story() -> tuple[list[int], int]:
        audience, listener = Audience[int](), Listener()
        await audience.join(broken, nobody)
        await audience.join(listener, nobody)
        async with audience.telling:
            audience.tell(numbers(2))
        return listener.heard, audience.failures

    with caplog.at_level(logging.ERROR):
        assert run_virtual(story()) == ([0, 1], 2)

    assert "RuntimeError: a bug" in caplog.text
    assert caplog.records[0].__dict__["change"] == "<added ConfigMap a/0 at 1>"


def test_one_that_raises_while_it_joins_has_joined() -> None:
    heard: list[int] = []

    def nervous(told: Change[int]) -> None:
        heard.append(told.after or 0)
        if told.after == 0:
            raise RuntimeError("a bug")

    async def story() -> int:
        audience = Audience[int]()
        await audience.join(nervous, lambda: numbers(2))
        async with audience.telling:
            audience.tell([change(2)])
        return audience.failures

    assert run_virtual(story()) == 1
    assert heard == [0, 1, 2]


@given(joins=st.lists(st.integers(0, 40), min_size=1, max_size=6), batches=st.lists(st.integers(0, 8), max_size=8))
def test_a_subscriber_that_joins_while_changes_are_told_misses_none_and_hears_none_twice(
    joins: list[int], batches: list[int]
) -> None:
    async def story() -> tuple[list[int], list[Listener]]:
        audience, present = Audience[int](), list[int]()
        listeners = [Listener(0.003) for _ in joins]

        async def change_the_store() -> None:
            fresh = itertools.count()
            for size in batches:
                async with audience.telling:
                    batch = list(itertools.islice(fresh, size))
                    present.extend(batch)
                    await audience.tell_many([change(number) for number in batch])
                await asyncio.sleep(0)

        async def join(listener: Listener, turns: int) -> None:
            for _ in range(turns):
                await asyncio.sleep(0)
            await audience.join(listener, lambda: [change(number) for number in present])

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(change_the_store())
            for listener, turns in zip(listeners, joins, strict=True):
                tasks.create_task(join(listener, turns))
        return present, listeners

    present, listeners = run_virtual(story())

    assert [listener.heard for listener in listeners] == [present] * len(listeners)


def test_a_long_tale_lets_others_run_every_few_milliseconds() -> None:
    async def story() -> tuple[int, int]:
        audience, listener, turns = Audience[int](), Listener(0.001), 0
        await audience.join(listener, nobody)
        telling = asyncio.create_task(tell_all(audience))
        while not telling.done():
            await asyncio.sleep(0)
            turns += 1
        return len(listener.heard), turns

    async def tell_all(audience: Audience[int]) -> None:
        async with audience.telling:
            await audience.tell_many(numbers(600))

    heard, turns = run_virtual(story())

    assert heard == 600
    assert turns >= 100


def test_one_that_leaves_is_told_nothing_more_not_even_what_others_are_being_told() -> None:
    async def story(actor_first: bool) -> list[int]:
        audience, leaver = Audience[int](), Listener()

        def send_away(told: Change[int]) -> None:
            if told.after == 1:
                audience.leave(leaver)

        handlers: list[Callable[[Change[int]], None]] = [send_away, leaver] if actor_first else [leaver, send_away]
        for handler in handlers:
            await audience.join(handler, nobody)
        async with audience.telling:
            await audience.tell_many(numbers(4))
        return leaver.heard

    assert run_virtual(story(actor_first=True)) == [0]
    assert run_virtual(story(actor_first=False)) == [0, 1]


def test_one_may_leave_from_within() -> None:
    async def story() -> tuple[list[int], list[int]]:
        audience, heard, other = Audience[int](), list[int](), Listener()

        def once(told: Change[int]) -> None:
            heard.append(told.after or 0)
            audience.leave(once)

        await audience.join(once, nobody)
        await audience.join(other, nobody)
        async with audience.telling:
            audience.tell(numbers(3))
        return heard, other.heard

    assert run_virtual(story()) == ([0], [0, 1, 2])


def test_one_that_is_cancelled_while_it_joins_has_not_joined_and_nobody_is_held_up() -> None:
    async def story() -> tuple[list[int], list[int]]:
        audience, cancelled, other = Audience[int](), Listener(0.01), Listener()
        joining = asyncio.create_task(audience.join(cancelled, lambda: numbers(5)))
        await asyncio.sleep(0)
        joining.cancel()
        await asyncio.wait([joining])
        await audience.join(other, nobody)
        async with audience.telling:
            audience.tell([change(7)])
        with pytest.raises(ValueError, match="expected one that has joined"):
            audience.leave(cancelled)
        return cancelled.heard, other.heard

    heard, others = run_virtual(story())

    assert 7 not in heard
    assert others == [7]


def test_nobody_joins_between_a_change_and_its_telling() -> None:
    async def story() -> list[int]:
        audience, listener, present = Audience[int](), Listener(), [0]
        async with audience.telling:
            joining = asyncio.create_task(audience.join(listener, lambda: [change(number) for number in present]))
            await settle()
            present.append(1)
            audience.tell([change(1)])
        await joining
        return listener.heard

    assert run_virtual(story()) == [0, 1]
