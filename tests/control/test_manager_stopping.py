"""How a manager stops: not ready first, then the group "serving", then what its requests need."""

import asyncio

import aiohttp
from aiohttp import web

from gpuruntime.control.controllers.controller import ControllerOptions
from gpuruntime.control.controllers.reconcile import Result, RunInfo
from gpuruntime.control.controllers.sources import Channel
from gpuruntime.control.manager import Manager, ManagerOptions
from gpuruntime.control.permissions.offline_credentials import OFFLINE_CREDENTIALS
from gpuruntime.control.serving.http_site import HttpAddress
from gpuruntime.testing.virtual_time import run_virtual


async def for_ever() -> None:
    await asyncio.Event().wait()


def test_it_says_that_it_is_not_ready_and_works_on_for_as_long_as_it_drains() -> None:
    async def story() -> tuple[str, str, float]:
        manager = Manager(OFFLINE_CREDENTIALS, ManagerOptions("drained", drain=5.0))
        clock = asyncio.get_running_loop().time
        ended: list[float] = []

        async def work() -> None:
            try:
                await for_ever()
            finally:
                ended.append(clock())

        manager.add(work, "work", group="serving")
        running = asyncio.create_task(manager.run())
        await asyncio.sleep(1.0)
        before = (await manager.observability.ready.run_one("running")).status
        stopped = clock()
        manager.stop()
        await asyncio.sleep(4.0)
        after = (await manager.observability.ready.run_one("running")).reason
        await running
        return before, after, ended[0] - stopped

    assert run_virtual(story()) == ("ok", "the manager is stopping", 5.0)


async def test_requests_end_before_what_they_need_while_probes_still_answer() -> None:
    order: list[str] = []
    begun, release = asyncio.Event(), asyncio.Event()
    manager = Manager(OFFLINE_CREDENTIALS, ManagerOptions("served", http=HttpAddress()))

    async def slow(_request: web.Request) -> web.Response:
        begun.set()
        await release.wait()
        order.append("request answered")
        return web.Response(text="done")

    async def needed() -> None:
        try:
            await for_ever()
        finally:
            order.append("work ended")

    app = web.Application()
    app.router.add_get("/slow", slow)
    site = manager.serve(app, HttpAddress(), group="serving")
    manager.add(needed, "needed", group="always")
    running = asyncio.create_task(manager.run())
    await site.listening()
    async with aiohttp.ClientSession() as session:
        asked = asyncio.create_task(session.get(f"{site.bound.url}/slow"))
        probe = f"{manager.sites[0].bound.url}/readyz"
        await begun.wait()

        manager.stop()
        async with session.get(probe) as ready:
            status = ready.status
        release.set()
        async with await asked as answer:
            text = await answer.text()
        await running

    assert (status, text) == (500, "done")
    assert order == ["request answered", "work ended"]


def test_after_a_failure_nobody_is_served_on() -> None:
    async def story() -> float:
        manager = Manager(OFFLINE_CREDENTIALS, ManagerOptions("broken", drain=20.0))

        async def failing() -> None:
            await asyncio.sleep(1.0)
            raise LookupError("boom")

        manager.add(failing, "failing", group="always")
        began = asyncio.get_running_loop().time()
        await asyncio.wait([asyncio.create_task(manager.run())])
        return asyncio.get_running_loop().time() - began

    assert run_virtual(story()) < 20.0


async def test_runs_get_half_of_the_grace_at_most_so_that_the_lease_can_be_released() -> None:
    class Idle:
        async def reconcile(self, _key: str, _context: RunInfo) -> Result:
            return Result.done()

    manager = Manager(OFFLINE_CREDENTIALS, ManagerOptions("hurried", grace=4.0))

    controller = manager.add_controller("idle", Idle(), [Channel[str]()], ControllerOptions(grace=3.0))

    assert controller.options.grace == 2.0
