"""Calls in an order that cannot work, and invalid values: refused at once, with what to do."""

import asyncio
import math
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from gpuruntime.control import (
    Cache,
    Channel,
    Controller,
    ControllerOptions,
    Election,
    HttpAddress,
    Manager,
    ManagerOptions,
    RateLimiter,
    Timer,
    Watch,
    WorkQueue,
    enqueue_object,
)
from gpuruntime.control.controllers.reconcile import Result, RunInfo
from gpuruntime.control.permissions.offline_credentials import OFFLINE_CREDENTIALS
from gpuruntime.control.writing.hot_loops import HotLoopSettings
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.testing.virtual_time import run_virtual
from tests.control.map_server import MapServer


class Idle:
    async def reconcile(self, _key: Any, _context: RunInfo) -> Result:
        return Result.done()


async def for_ever() -> None:
    await asyncio.get_running_loop().create_future()


def make() -> Manager:
    return Manager(OFFLINE_CREDENTIALS, ManagerOptions("late"))


def untyped(value: Any) -> Any:
    """What a program without types may pass."""
    return value


def refusal(call: Callable[[], object]) -> str:
    """What a call is refused with; empty if it is not."""
    try:
        call()
    except (RuntimeError, TypeError, ValueError) as error:
        return str(error)
    return ""


async def refused(run: Any) -> str:
    """What a coroutine is refused with, empty if it goes on."""
    try:
        async with asyncio.timeout(5):
            await run
    except TimeoutError:
        return ""
    except RuntimeError as error:
        return str(error)
    return ""


LATE: list[Callable[[Manager], object]] = [
    lambda manager: manager.add_controller("x", Idle(), [Channel()]),
    lambda manager: manager.add(for_ever, "x"),
    lambda manager: manager.serve(web.Application(), HttpAddress()),
]


@pytest.mark.parametrize("call", LATE, ids=["add_controller", "add", "serve"])
@pytest.mark.parametrize("ended", [False, True], ids=["while it runs", "after it ran"])
def test_what_is_added_after_run_is_refused_with_what_to_do(call: Callable[[Manager], object], ended: bool) -> None:
    async def story() -> str:
        manager = make()
        running = asyncio.create_task(manager.run())
        await asyncio.sleep(1)
        if ended:
            manager.stop()
            await running
        said = refusal(lambda: call(manager))
        manager.stop()
        await asyncio.wait([running])
        return said

    assert "manager 'late'" in run_virtual(story())


def test_a_second_run_is_refused_with_what_to_do_and_harms_the_first_one_nothing() -> None:
    async def story() -> tuple[str, bool, str]:
        manager = make()
        running = asyncio.create_task(manager.run())
        await asyncio.sleep(1)
        beside = await refused(manager.run())
        unharmed = not running.done() and not manager.is_stopping
        manager.stop()
        await running
        return beside, unharmed, await refused(manager.run())

    beside, unharmed, after = run_virtual(story())

    assert unharmed
    assert all("manager 'late'" in said for said in (beside, after))


def test_a_manager_that_is_stopped_before_it_runs_returns_at_once() -> None:
    async def story() -> str:
        manager = make()
        manager.stop()
        return await refused(manager.run())

    assert run_virtual(story()) == ""


def test_a_manager_is_made_and_run_in_one_loop() -> None:
    assert refusal(make) == (
        "a manager needs a running event loop: create it inside the coroutine passed to asyncio.run"
    )
    assert "workqueue 'x' needs a running event loop" in refusal(lambda: WorkQueue("x"))

    async def making() -> tuple[Manager, Controller[str]]:
        return make(), Controller("x", Idle(), [Channel[str]()])

    manager, controller = asyncio.run(making())

    assert "was created in another event loop" in asyncio.run(refused(manager.run()))
    assert "was created in another event loop" in asyncio.run(refused(controller.run()))


def test_a_controller_and_a_cache_run_once_at_a_time() -> None:
    async def story() -> list[str]:
        controller = Controller("x", Idle(), [Channel[str]()])
        cache = Cache(MapServer())
        informer = cache.informer(ConfigMap)
        running = [asyncio.create_task(run()) for run in (controller.run, cache.run)]
        await informer.synced()
        said = [await refused(run()) for run in (controller.run, cache.run, informer.run)]
        for task in running:
            task.cancel()
        await asyncio.wait(running)
        return said

    controller, cache, informer = run_virtual(story())

    assert "controller 'x'" in controller
    assert "cache" in cache
    assert "informer of v1 ConfigMap" in informer


def test_a_source_feeds_one_controller() -> None:
    async def story() -> tuple[str, str, str]:
        manager, cache = make(), Cache(MapServer())
        shared = Channel[str]()
        manager.add_controller("one", Idle(), [shared])
        added = refusal(lambda: manager.add_controller("two", Idle(), [shared]))
        watch = Watch(cache.informer(ConfigMap), enqueue_object())
        running = [asyncio.create_task(run()) for run in (cache.run, Controller("a", Idle(), [watch]).run)]
        await asyncio.sleep(1)
        beside = await refused(Controller("b", Idle(), [watch]).run())
        fed = "" if watch.informers[0]._dispatcher._subscriptions else "nobody is fed any more"
        for task in running:
            task.cancel()
        await asyncio.wait(running)
        return added, beside, fed

    added, beside, fed = run_virtual(story())

    assert "'one' and 'two'" in added
    assert "a source of controller 'b' is used by another one: create one for each" in beside
    assert fed == ""


def test_work_that_cannot_run_is_refused() -> None:
    def plain() -> None:
        """Gives no coroutine."""

    async def story() -> tuple[str, str]:
        manager = make()
        group: Any = "leaders"
        said = refusal(lambda: manager.add(for_ever, "x", group=group))
        manager.add(plain, "plain", group="always")  # type: ignore[arg-type]  # the mistake under test
        try:
            await manager.run()
        except TypeError as error:
            return said, str(error)
        return said, ""

    group, plain_work = run_virtual(story())

    assert group.startswith("runnable 'x': ")
    assert group.endswith("http, serving, always, leader, got 'leaders'")
    assert plain_work.startswith("plain: ")


@pytest.mark.parametrize(
    ("construct", "named"),
    [
        (lambda: ControllerOptions(concurrency=0), "ControllerOptions.concurrency: "),
        (lambda: ControllerOptions(concurrency=untyped(1.5)), "ControllerOptions.concurrency: "),
        (lambda: ControllerOptions(concurrency=True), "got True"),
        (lambda: ControllerOptions(reconcile_timeout=0), "ControllerOptions.reconcile_timeout: "),
        (lambda: ControllerOptions(reconcile_timeout=math.nan), "got nan"),
        (lambda: ControllerOptions(grace=-1), "ControllerOptions.grace: "),
        (lambda: ManagerOptions("x", grace=-5), "ManagerOptions.grace: "),
        (lambda: ManagerOptions("x", drain=math.inf), "ManagerOptions.drain: "),
        (lambda: ManagerOptions("x", stall=0), "ManagerOptions.stall: "),
        (lambda: ManagerOptions("x", grace=untyped("5")), "ManagerOptions.grace: "),
        (lambda: RateLimiter(base=math.nan), "got base=nan"),
        (lambda: RateLimiter(base=-1), "got base=-1"),
        (lambda: RateLimiter(jitter=math.nan), "got nan"),
        (lambda: HotLoopSettings(writes=0), "HotLoopSettings.writes: "),
        (lambda: Timer(math.nan, list), "Timer.seconds: "),
        (lambda: Election("NS_", "name"), "Election.namespace: "),
        (lambda: Election("", "name"), "Election.namespace: "),
        (lambda: Election("ns", "Name"), "Election.name: "),
        (lambda: Election("a.b", "name"), "got 'a.b'"),
        (lambda: Election("ns", "name", identity=""), "Election.identity: "),
        (lambda: HttpAddress(port=70_000), "HttpAddress.port: "),
    ],
)
def test_invalid_numbers_and_names_are_refused_where_they_are_given(
    construct: Callable[[], object], named: str
) -> None:
    assert named in refusal(construct)
