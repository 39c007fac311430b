"""Those who are told what changes: in order, one change at a time, each whatever the others do."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from gpuruntime.control.informers.changes import Change

__all__ = ["Audience", "Handler"]

_LOG = logging.getLogger(__name__)
T = TypeVar("T")
Handler = Callable[[Change[T]], None]
_SLICE_SECONDS = 0.003


class Audience(Generic[T]):
    """The subscribers of one informer.

    Whoever changes the store holds `telling` from the change until it is told, so that nobody joins in between or is
    told out of order.
    """

    def __init__(self) -> None:
        self.telling = asyncio.Lock()
        self.failures = 0
        self._handlers: list[Handler[T]] = []

    async def join(self, handler: Handler[T], present: Callable[[], Iterable[Change[T]]]) -> None:
        """Tell `handler` what is present, then every change."""
        async with self.telling:
            await self._tell_in_slices([handler], list(present()))
            self._handlers.append(handler)

    def leave(self, handler: Handler[T]) -> None:
        """Tell `handler` nothing more, not even the change that others are being told.

        Raises:
            ValueError: it has not joined, or is still joining.
        """
        self._handlers.remove(handler)

    def tell(self, changes: Iterable[Change[T]]) -> None:
        """Tell a few changes. Hold `telling`."""
        for change in changes:
            self._tell(self._handlers, change)

    async def tell_many(self, changes: Iterable[Change[T]]) -> None:
        """Tell any number of changes, letting others run every few milliseconds. Hold `telling`."""
        await self._tell_in_slices(self._handlers, changes)

    async def _tell_in_slices(self, handlers: Sequence[Handler[T]], changes: Iterable[Change[T]]) -> None:
        if not handlers:
            return
        loop = asyncio.get_running_loop()
        slice_end = loop.time() + _SLICE_SECONDS
        for change in changes:
            self._tell(handlers, change)
            if loop.time() > slice_end:
                await asyncio.sleep(0)
                slice_end = loop.time() + _SLICE_SECONDS

    def _tell(self, handlers: Sequence[Handler[T]], change: Change[T]) -> None:
        for handler in tuple(handlers):
            if handler not in handlers:
                continue  # one before it has made it leave
            try:
                handler(change)
            except Exception:  # noqa: BLE001 - other people's code must not stop the informer
                self.failures += 1
                _LOG.exception("a subscriber failed", extra={"change": repr(change)})
