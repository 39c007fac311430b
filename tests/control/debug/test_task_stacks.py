import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from typing import Any

import pytest

from gpuruntime.control.debug.task_stacks import TaskView, view_tasks


async def innermost(gate: asyncio.Event) -> None:
    secret = "hunter2"
    await gate.wait()
    assert secret


async def outermost(gate: asyncio.Event) -> None:
    await innermost(gate)


async def yielding(gate: asyncio.Event) -> AsyncIterator[None]:
    await innermost(gate)
    yield


async def iterating(gate: asyncio.Event) -> None:
    async for _ in yielding(gate):
        pass


class Awaitable:
    def __init__(self, gate: asyncio.Event) -> None:
        self._gate = gate

    def __await__(self) -> Generator[Any, None, None]:
        return innermost(self._gate).__await__()


async def awaiting_an_object(gate: asyncio.Event) -> None:
    await Awaitable(gate)


async def views_while(work: asyncio.Task[None]) -> dict[str, TaskView]:
    """The tasks of this loop once `work` waits."""
    await asyncio.sleep(0)
    views = {view.name: view for view in view_tasks(asyncio.get_running_loop())}
    work.cancel()
    await asyncio.wait([work])
    return views


async def test_a_task_shows_its_whole_await_chain() -> None:
    work = asyncio.create_task(outermost(asyncio.Event()), name="waiting")

    view = (await views_while(work))["waiting"]

    assert view.coroutine == "outermost"
    assert view.waits_for == "Future"
    assert view.stack.index("in outermost") < view.stack.index("in innermost") < view.stack.index("in wait")
    assert "await gate.wait()" in view.stack


@pytest.mark.parametrize("through", [iterating, awaiting_an_object], ids=["a generator", "an object"])
async def test_the_chain_includes_every_kind_of_awaitable(
    through: Callable[[asyncio.Event], Coroutine[Any, Any, None]],
) -> None:
    work = asyncio.create_task(through(asyncio.Event()), name="waiting")

    view = (await views_while(work))["waiting"]

    assert view.stack.index(f"in {through.__name__}") < view.stack.index("in innermost") < view.stack.index("in wait")
    assert view.waits_for == "Future"


async def test_a_task_that_waits_for_another_names_it() -> None:
    async with asyncio.TaskGroup() as tasks:
        awaited = tasks.create_task(asyncio.sleep(60), name="the other")

        async def wait() -> None:
            await awaited

        view = (await views_while(tasks.create_task(wait(), name="waiting")))["waiting"]
        awaited.cancel()

    assert view.waits_for == "task the other"


async def test_values_of_variables_are_not_shown() -> None:
    work = asyncio.create_task(outermost(asyncio.Event()), name="waiting")

    view = (await views_while(work))["waiting"]

    assert "hunter2" not in repr(view)


async def test_the_current_task_is_shown_and_waits_for_nothing() -> None:
    views = view_tasks(asyncio.get_running_loop())

    (current,) = (view for view in views if "in test_the_current_task" in view.stack)

    assert current.waits_for == ""


async def test_tasks_are_sorted_by_name() -> None:
    works = [asyncio.create_task(asyncio.sleep(60), name=name) for name in ("b", "c", "a")]

    names = [view.name for view in view_tasks(asyncio.get_running_loop()) if view.name in {"a", "b", "c"}]

    for work in works:
        work.cancel()
    await asyncio.wait(works)
    assert names == ["a", "b", "c"]
