"""Retries of failed keys, in virtual time."""

import asyncio
from itertools import pairwise

from gpuruntime.aio.retries import Retries
from gpuruntime.testing.virtual_time import run_virtual


async def tries(retries: Retries[str], count: int) -> list[tuple[float, str]]:
    """The next `count` keys, each of which fails again."""
    made: list[tuple[float, str]] = []
    for _ in range(count):
        key = await retries.next()
        made.append((round(asyncio.get_running_loop().time(), 3), key))
        retries.failed(key)
    return made


def test_each_failure_doubles_the_delay_up_to_a_minute() -> None:
    async def story() -> list[float]:
        retries = Retries[str]()
        retries.failed("a")
        times = [0.0, *(at for at, _ in await tries(retries, 14))]
        return [round(later - earlier, 3) for earlier, later in pairwise(times)]

    assert run_virtual(story()) == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 60, 60, 60, 60]


def test_a_failure_of_a_waiting_key_does_not_postpone_it() -> None:
    async def story() -> list[tuple[float, str]]:
        retries = Retries[str]()
        retries.failed("a")
        await asyncio.sleep(0.05)
        retries.failed("a")
        return await tries(retries, 2)

    assert run_virtual(story()) == [(0.1, "a"), (0.3, "a")]


def test_a_forgotten_key_is_not_retried_and_its_delay_is_reset() -> None:
    async def story() -> list[tuple[float, str]]:
        retries = Retries[str]()
        retries.failed("a")
        retries.failed("b")
        await tries(retries, 2)
        retries.forget("a")
        await asyncio.sleep(1)
        retries.forget("b")
        retries.failed("a")
        return await tries(retries, 1)

    assert run_virtual(story()) == [(1.2, "a")]


def test_a_waiting_consumer_gets_a_key_that_is_due_earlier() -> None:
    async def story() -> list[tuple[float, str]]:
        retries = Retries[str]()
        waiting = asyncio.create_task(tries(retries, 3))
        await asyncio.sleep(5)
        retries.failed("a")
        await asyncio.sleep(0.15)
        retries.failed("b")
        return await waiting

    assert run_virtual(story()) == [(5.1, "a"), (5.25, "b"), (5.3, "a")]
