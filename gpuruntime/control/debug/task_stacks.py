"""The await stacks of all tasks of an event loop, as text."""

import asyncio
import gc
import traceback
from collections.abc import AsyncGenerator, Coroutine, Generator, Iterator
from types import FrameType
from typing import Any, Final

from attrs import frozen

__all__ = ["TaskView", "view_tasks"]

_WRAPPERS: Final = {
    "FutureIter",
    "anext_awaitable",
    "async_generator_asend",
    "async_generator_athrow",
    "coroutine_wrapper",
}
_AWAITED: Final = (asyncio.Future, Coroutine, Generator, AsyncGenerator)


@frozen
class TaskView:
    """A task on a debug page."""

    name: str
    coroutine: str
    stack: str
    """From the outermost await to the innermost, formatted like a traceback, without values of variables."""
    waits_for: str
    """The type of the innermost awaited object, or the name of the awaited task; empty unless the task is suspended."""


def view_tasks(loop: asyncio.AbstractEventLoop) -> tuple[TaskView, ...]:
    """Every unfinished task of a loop, sorted by name. Call it in the loop's thread."""
    return tuple(sorted(map(_view, asyncio.all_tasks(loop)), key=lambda view: (view.name, view.coroutine)))


def _view(task: asyncio.Task[Any]) -> TaskView:
    coroutine = task.get_coro()
    awaited = list(_awaited(coroutine))
    frames = ((frame, frame.f_lineno) for link in awaited if (frame := _frame(link)) is not None)
    return TaskView(
        name=task.get_name(),
        coroutine=getattr(coroutine, "__qualname__", type(coroutine).__qualname__),
        stack="".join(traceback.StackSummary.extract(frames).format()),
        waits_for=_name(awaited[-1]),
    )


def _awaited(coroutine: Any) -> Iterator[Any]:
    """The chain of awaits that starts with a coroutine. `Task.get_stack` shows only its first link."""
    link = coroutine
    while link is not None:
        yield link
        link = _first(link, "cr_await", "gi_yieldfrom", "ag_await") or _wrapped(link)


def _wrapped(link: Any) -> Any:
    """The object behind one of the interpreter's own awaitables, which do not expose it."""
    if type(link).__name__ not in _WRAPPERS:
        return None
    return next((inner for inner in gc.get_referents(link) if isinstance(inner, _AWAITED)), None)


def _frame(link: Any) -> FrameType | None:
    frame: FrameType | None = _first(link, "cr_frame", "gi_frame", "ag_frame")
    return frame


def _first(link: Any, *names: str) -> Any:
    return next((found for name in names if (found := getattr(link, name, None)) is not None), None)


def _name(link: Any) -> str:
    if isinstance(link, asyncio.Task):
        return f"task {link.get_name()}"
    return "" if _frame(link) is not None else type(link).__qualname__
