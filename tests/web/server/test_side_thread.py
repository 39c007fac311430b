import asyncio
import threading

from aiohttp import web

from gpuruntime.web.server.side_thread import SideThread

LARGE = 2**20


async def test_small_work_is_done_where_it_is_asked_for_and_large_work_beside_the_loop() -> None:
    side = SideThread()

    small = await side.run(threading.get_ident, 100)
    large = await side.run(threading.get_ident, LARGE)

    assert small == threading.get_ident()
    assert large != small
    await side.close(web.Application())


async def test_large_work_is_done_one_piece_at_a_time_and_not_at_all_for_those_who_left() -> None:
    side, go_on, done = SideThread(), threading.Event(), []

    def work(name: str) -> None:
        go_on.wait(30)
        done.append((name, threading.get_ident()))

    first, second, third = (
        asyncio.create_task(side.run(lambda name=name: work(name), LARGE))  # type: ignore[misc]
        for name in ("first", "second", "third")
    )
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait([second])
    go_on.set()
    await asyncio.wait([first, third])

    assert [name for name, _ in done] == ["first", "third"]
    assert len({thread for _, thread in done}) == 1
    await side.close(web.Application())
