"""Cleanup yields to callers, up to a limit: in virtual time."""

import asyncio

from attrs import define, field

from gpuruntime.service.operations.background import BackgroundThrottle
from gpuruntime.testing.virtual_time import run_virtual


@define
class Scene:
    """Callers and cleanups, and when each cleanup started."""

    throttle: BackgroundThrottle
    started: list[tuple[str, float]] = field(factory=list)

    async def caller(self, at: float, seconds: float) -> None:
        await asyncio.sleep(at)
        with self.throttle.foreground():
            await asyncio.sleep(seconds)

    async def cleanup(self, name: str, at: float, seconds: float = 0.0) -> None:
        await asyncio.sleep(at)
        async with self.throttle.background():
            self.started.append((name, asyncio.get_running_loop().time()))
            await asyncio.sleep(seconds)


def test_cleanup_starts_at_once_without_callers() -> None:
    async def story() -> list[tuple[str, float]]:
        scene = Scene(BackgroundThrottle(10.0))
        await scene.cleanup("a", at=1.0)
        return scene.started

    assert run_virtual(story()) == [("a", 1.0)]


def test_cleanup_waits_until_there_were_no_callers_for_a_moment() -> None:
    async def story() -> list[tuple[str, float]]:
        scene = Scene(BackgroundThrottle(10.0))
        await asyncio.gather(
            scene.caller(at=0.0, seconds=2.0), scene.caller(at=1.0, seconds=3.0), scene.cleanup("a", at=0.5)
        )
        return scene.started

    assert run_virtual(story()) == [("a", 4.1)]


def test_a_short_gap_between_two_callers_does_not_count_as_quiet() -> None:
    async def story() -> list[tuple[str, float]]:
        scene = Scene(BackgroundThrottle(10.0, quiet=1.0))
        await asyncio.gather(
            scene.caller(at=0.0, seconds=2.0), scene.caller(at=2.5, seconds=1.0), scene.cleanup("a", at=0.5)
        )
        return scene.started

    assert run_virtual(story()) == [("a", 4.5)]


def test_callers_delay_cleanup_up_to_the_maximum_and_no_longer() -> None:
    async def story() -> list[tuple[str, float]]:
        scene = Scene(BackgroundThrottle(2.0))
        endless = asyncio.create_task(scene.caller(at=0.0, seconds=1000.0))
        await asyncio.gather(scene.cleanup("a", at=1.0), scene.cleanup("b", at=1.5))
        endless.cancel()
        await asyncio.wait([endless])
        return scene.started

    assert run_virtual(story()) == [("a", 3.0), ("b", 3.5)]


def test_a_limited_number_of_cleanups_runs_at_a_time_in_order() -> None:
    async def story() -> list[tuple[str, float]]:
        scene = Scene(BackgroundThrottle(10.0, concurrency=2))
        await asyncio.gather(*[scene.cleanup(name, at=0.0, seconds=1.0) for name in "abcd"])
        return scene.started

    assert run_virtual(story()) == [("a", 0.0), ("b", 0.0), ("c", 1.0), ("d", 1.0)]


def test_waiting_for_a_slot_does_not_extend_the_delay() -> None:
    async def story() -> list[tuple[str, float]]:
        scene = Scene(BackgroundThrottle(2.0, concurrency=1))
        endless = asyncio.create_task(scene.caller(at=0.0, seconds=1000.0))
        await asyncio.gather(scene.cleanup("a", at=1.0), scene.cleanup("b", at=1.1), scene.cleanup("c", at=1.2))
        endless.cancel()
        await asyncio.wait([endless])
        return scene.started

    assert run_virtual(story()) == [("a", 3.0), ("b", 3.1), ("c", 3.2)]


def test_a_cleanup_that_is_cancelled_while_it_waits_frees_its_slot() -> None:
    async def story() -> list[tuple[str, float]]:
        scene = Scene(BackgroundThrottle(100.0, concurrency=1))
        calling = asyncio.create_task(scene.caller(at=0.0, seconds=5.0))
        first = asyncio.create_task(scene.cleanup("a", at=1.0))
        second = asyncio.create_task(scene.cleanup("b", at=2.0))
        await asyncio.sleep(3.0)
        first.cancel()
        await asyncio.wait([calling, first, second])
        return scene.started

    assert run_virtual(story()) == [("b", 5.1)]
