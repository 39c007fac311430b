"""Who gives way to whom, and for how long: in virtual time."""

import asyncio

from attrs import define, field

from gpuruntime.service.operations.background import BackgroundThrottle
from gpuruntime.testing.virtual_time import run_virtual


@define
class Scene:
    """Callers and rests of operations, and when each of them had its turn."""

    precedence: BackgroundThrottle
    seen: list[tuple[str, float]] = field(factory=list)

    async def caller(self, at: float, seconds: float) -> None:
        await asyncio.sleep(at)
        with self.precedence.awaited():
            await asyncio.sleep(seconds)

    async def rest(self, name: str, at: float, seconds: float = 0.0) -> None:
        await asyncio.sleep(at)
        async with self.precedence.afterwards():
            self.seen.append((name, asyncio.get_running_loop().time()))
            await asyncio.sleep(seconds)


def test_the_rest_of_an_operation_begins_at_once_if_nobody_waits() -> None:
    async def story() -> list[tuple[str, float]]:
        scene = Scene(BackgroundThrottle(10.0))
        await scene.rest("a", at=1.0)
        return scene.seen

    assert run_virtual(story()) == [("a", 1.0)]


def test_the_rest_of_an_operation_waits_until_there_were_no_callers_for_a_moment() -> None:
    async def story() -> list[tuple[str, float]]:
        scene = Scene(BackgroundThrottle(10.0))
        await asyncio.gather(
            scene.caller(at=0.0, seconds=2.0), scene.caller(at=1.0, seconds=3.0), scene.rest("a", at=0.5)
        )
        return scene.seen

    assert run_virtual(story()) == [("a", 4.1)]


def test_a_gap_between_two_callers_is_no_calm() -> None:
    async def story() -> list[tuple[str, float]]:
        scene = Scene(BackgroundThrottle(10.0, calm=1.0))
        await asyncio.gather(
            scene.caller(at=0.0, seconds=2.0), scene.caller(at=2.5, seconds=1.0), scene.rest("a", at=0.5)
        )
        return scene.seen

    assert run_virtual(story()) == [("a", 4.5)]


def test_callers_that_never_cease_are_given_way_to_for_so_long_and_no_longer() -> None:
    async def story() -> list[tuple[str, float]]:
        scene = Scene(BackgroundThrottle(2.0))
        endless = asyncio.create_task(scene.caller(at=0.0, seconds=1000.0))
        await asyncio.gather(scene.rest("a", at=1.0), scene.rest("b", at=1.5))
        endless.cancel()
        await asyncio.wait([endless])
        return scene.seen

    assert run_virtual(story()) == [("a", 3.0), ("b", 3.5)]


def test_of_the_rests_a_few_are_worked_on_at_a_time_in_order() -> None:
    async def story() -> list[tuple[str, float]]:
        scene = Scene(BackgroundThrottle(10.0, abreast=2))
        await asyncio.gather(*[scene.rest(name, at=0.0, seconds=1.0) for name in "abcd"])
        return scene.seen

    assert run_virtual(story()) == [("a", 0.0), ("b", 0.0), ("c", 1.0), ("d", 1.0)]


def test_those_that_wait_in_line_give_way_no_longer_for_that() -> None:
    async def story() -> list[tuple[str, float]]:
        scene = Scene(BackgroundThrottle(2.0, abreast=1))
        endless = asyncio.create_task(scene.caller(at=0.0, seconds=1000.0))
        await asyncio.gather(scene.rest("a", at=1.0), scene.rest("b", at=1.1), scene.rest("c", at=1.2))
        endless.cancel()
        await asyncio.wait([endless])
        return scene.seen

    assert run_virtual(story()) == [("a", 3.0), ("b", 3.1), ("c", 3.2)]


def test_a_rest_that_is_cancelled_while_it_waits_leaves_its_place_to_others() -> None:
    async def story() -> list[tuple[str, float]]:
        scene = Scene(BackgroundThrottle(100.0, abreast=1))
        calling = asyncio.create_task(scene.caller(at=0.0, seconds=5.0))
        first = asyncio.create_task(scene.rest("a", at=1.0))
        second = asyncio.create_task(scene.rest("b", at=2.0))
        await asyncio.sleep(3.0)
        first.cancel()
        await asyncio.wait([calling, first, second])
        return scene.seen

    assert run_virtual(story()) == [("b", 5.1)]
