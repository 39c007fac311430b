"""Triggers, mappers and predicates that raise: no change is lost, and it shows while it lasts. In virtual time."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import pytest
from attrs import define, field

from gpuruntime.control.controllers.controller import Controller
from gpuruntime.control.controllers.reconcile import Result, RunInfo
from gpuruntime.control.controllers.sources import Watch
from gpuruntime.control.controllers.triggers import enqueue_mapped, enqueue_object
from gpuruntime.control.informers.cache import Cache
from gpuruntime.control.informers.changes import Change
from gpuruntime.control.informers.informer import Informer
from gpuruntime.control.informers.storage import compact
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.meta.identity import ObjectKey
from gpuruntime.testing.virtual_time import run_virtual
from tests.control.map_server import MapServer
from tests.control.scenes import running


@define
class Fragile:
    """Names the colours of a map as keys, unless it is broken: for good, or for a number of calls."""

    broken: bool = False
    left: int = 0
    calls: int = 0

    def __call__(self, obj: ConfigMap) -> Iterable[ObjectKey]:
        self.calls += 1
        if self.broken or self.left:
            self.left = max(self.left - 1, 0)
            raise LookupError("the directory does not answer")
        return [ObjectKey("colour", obj.data["color"])]


@define
class Scene:
    """A controller of colours on a server of maps."""

    server: MapServer = field(factory=MapServer)
    fragile: Fragile = field(factory=Fragile)
    runs: list[str] = field(factory=list)
    cache: Cache = field(init=False)
    informer: Informer[ConfigMap] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.cache = Cache(self.server)
        self.informer = self.cache.informer(ConfigMap)

    async def reconcile(self, key: ObjectKey, _context: RunInfo) -> Result:
        self.runs.append(key.name)
        return Result.done()

    def paint(self, name: str, color: str) -> None:
        self.server.put(name, data={"color": color})

    async def keys_after(self, seconds: float) -> list[str]:
        """The keys that ran in the next seconds, sorted."""
        self.runs.clear()
        await asyncio.sleep(seconds)
        return sorted(self.runs)


def play(scene: Scene, story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run the controller for the duration of a story."""

    async def everything() -> None:
        controller = Controller("colours", scene, [Watch(scene.informer, enqueue_mapped(scene.fragile))])
        async with running(scene.cache):
            working = asyncio.create_task(controller.run())
            await story()
            working.cancel()
            await asyncio.wait([working])

    run_virtual(everything())


def test_a_mapper_that_raises_once_on_the_initial_state_loses_nothing() -> None:
    scene = Scene(fragile=Fragile(left=1))
    scene.paint("wall", "red")
    keys: list[str] = []

    async def story() -> None:
        keys.extend(await scene.keys_after(5))

    play(scene, story)

    assert keys == ["red"]


def test_a_mapper_that_raises_for_an_hour_sees_every_old_and_new_state_afterwards() -> None:
    scene = Scene()
    keys: list[str] = []

    async def story() -> None:
        scene.paint("wall", "red")
        scene.paint("door", "white")
        await scene.keys_after(5)
        scene.fragile.broken = True
        scene.paint("wall", "green")
        await asyncio.sleep(1800)
        scene.paint("wall", "blue")
        scene.server.remove("door")
        await asyncio.sleep(1800)
        assert await scene.keys_after(100) == []
        scene.fragile.broken = False
        keys.extend(await scene.keys_after(61))

    play(scene, story)

    assert set(keys) == {"red", "green", "blue", "white"}


def test_an_object_that_came_and_went_while_its_mapper_failed_is_seen() -> None:
    scene = Scene(fragile=Fragile(broken=True))
    keys: list[str] = []

    async def story() -> None:
        await asyncio.sleep(1)
        scene.paint("wall", "red")
        scene.server.remove("wall")
        scene.paint("wall", "green")
        scene.server.remove("wall")
        await asyncio.sleep(100)
        scene.fragile.broken = False
        keys.extend(await scene.keys_after(61))

    play(scene, story)

    assert set(keys) == {"red", "green"}


def test_a_change_that_comes_while_a_retry_waits_has_it_tried_at_once_and_in_order() -> None:
    scene = Scene(fragile=Fragile(broken=True))
    seen: list[str] = []

    async def story() -> None:
        scene.paint("wall", "red")
        await asyncio.sleep(500)
        scene.fragile.broken = False
        scene.paint("wall", "green")
        seen.extend(await scene.keys_after(0.5))

    play(scene, story)

    assert seen == ["green", "red"]


def test_the_backoff_grows_to_a_minute_and_other_objects_go_on() -> None:
    scene = Scene(fragile=Fragile(broken=True))
    calls: list[int] = []
    keys: list[str] = []

    async def story() -> None:
        scene.paint("wall", "red")
        await asyncio.sleep(600)
        before = scene.fragile.calls
        await asyncio.sleep(600)
        calls.append(scene.fragile.calls - before)
        scene.fragile.broken = False
        scene.paint("door", "white")
        keys.extend(await scene.keys_after(0.5))

    play(scene, story)

    assert calls == [10]
    assert keys == ["white"]


def test_a_predicate_that_raises_is_asked_again() -> None:
    answers = [LookupError("no"), LookupError("no")]
    ran: list[ObjectKey] = []

    def nervous(_change: Change[Any]) -> bool:
        if answers:
            raise answers.pop()
        return True

    async def story() -> None:
        scene = Scene()
        scene.paint("wall", "red")

        class Noting:
            async def reconcile(self, key: ObjectKey, _context: RunInfo) -> Result:
                ran.append(key)
                return Result.done()

        controller = Controller("noting", Noting(), [Watch(scene.informer, enqueue_object(), [nervous])])
        async with running(scene.cache):
            working = asyncio.create_task(controller.run())
            await asyncio.sleep(5)
            working.cancel()
            await asyncio.wait([working])

    run_virtual(story())

    assert ran == [ObjectKey("a", "wall")]


@pytest.mark.parametrize("error", [asyncio.CancelledError, GeneratorExit])
def test_whatever_a_trigger_raises_the_informer_goes_on(error: type[BaseException]) -> None:
    raised: list[bool] = []
    keys: list[str] = []

    class Odd(Fragile):
        def __call__(self, obj: ConfigMap) -> Iterable[ObjectKey]:
            if not raised:
                raised.append(True)
                raise error
            return super().__call__(obj)

    scene = Scene(fragile=Odd())

    async def story() -> None:
        scene.paint("wall", "red")
        await asyncio.sleep(1)
        scene.paint("door", "white")
        await asyncio.sleep(5)
        keys.extend(scene.runs)

    play(scene, story)

    assert sorted(keys) == ["red", "white"]


def test_a_controller_that_stops_drops_what_waits_and_the_next_start_sees_it() -> None:
    scene = Scene(fragile=Fragile(broken=True))
    scene.paint("wall", "red")
    calls: list[int] = []

    async def everything() -> None:
        controller = Controller("colours", scene, [Watch(scene.informer, enqueue_mapped(scene.fragile))])
        async with running(scene.cache):
            for _ in range(2):
                working = asyncio.create_task(controller.run())
                await asyncio.sleep(10)
                working.cancel()
                await asyncio.wait([working])
                before = scene.fragile.calls
                await asyncio.sleep(600)
                calls.append(scene.fragile.calls - before)
                scene.fragile.broken = False

    run_virtual(everything())

    assert calls == [0, 0]
    assert scene.runs == ["red"]


def test_a_state_that_cannot_be_decoded_is_stepped_over_without_losing_the_one_before_it() -> None:
    keys: list[str] = []

    async def everything() -> tuple[int, tuple[str, ...]]:
        server = MapServer()
        informer = (cache := Cache(server)).informer(compact(ConfigMap))

        class Noting:
            async def reconcile(self, key: ObjectKey, _context: RunInfo) -> Result:
                keys.append(key.name)
                return Result.done()

        controller = Controller("colours", Noting(), [Watch(informer, enqueue_mapped(Fragile()))])
        async with running(cache):
            working = asyncio.create_task(controller.run())
            server.put("wall", data={"color": "red"})
            await asyncio.sleep(1)
            keys.clear()
            server.put("wall", data={"color": 7})
            await asyncio.sleep(100)
            # It is data that does not fit, not code that fails.
            retried, failing = informer.retrying, informer.failing
            server.put("wall", data={"color": "green"})
            await asyncio.sleep(1)
            working.cancel()
            await asyncio.wait([working])
        return retried, failing

    assert run_virtual(everything()) == (0, ())
    assert sorted(keys) == ["green", "red"]


def test_a_trigger_that_fails_on_everything_is_logged_once_a_second(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene(fragile=Fragile(broken=True))
    for number in range(200):
        scene.paint(f"wall-{number}", "red")

    async def story() -> None:
        await asyncio.sleep(0.05)

    with caplog.at_level(logging.ERROR):
        play(scene, story)

    messages = [record.getMessage() for record in caplog.records]
    assert messages == ["event handler failed, will retry"]
    assert vars(caplog.records[0])["handler"] == "the trigger or a predicate of controller colours"
