"""Those who are told what changes: in order, one change at a time, each whatever the others do."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from gpuruntime.control.informers.changes import Change
from gpuruntime.meta.identity import ObjectKey

__all__ = ["Audience", "Handler"]

_LOG = logging.getLogger(__name__)
T = TypeVar("T")
Handler = Callable[[Change[T]], None]
_SLICE_SECONDS = 0.003


class Audience(Generic[T]):
    """The subscribers of one informer: those to every object, and those to one.

    Whoever changes the store holds `telling` from the change until it is told, so that nobody joins in between or is
    told out of order. What is told of an object costs nothing for subscribers to others.
    """

    def __init__(self) -> None:
        self.telling = asyncio.Lock()
        self.failures = 0
        # By the key that they listen to, None for every one. Dicts, because those who come and go may be many.
        self._handlers: dict[ObjectKey | None, dict[Handler[T], None]] = {}

    async def join(
        self, handler: Handler[T], present: Callable[[], Iterable[Change[T]]], key: ObjectKey | None = None
    ) -> None:
        """Tell `handler` what is present, then every change, or only those of the object with a key."""
        async with self.telling:
            await self._in_slices(lambda change: self._tell({handler: None}, change), list(present()))
            self._handlers.setdefault(key, {})[handler] = None

    def leave(self, handler: Handler[T], key: ObjectKey | None = None) -> None:
        """Tell `handler`, which has joined for this key, nothing more, not even the change that others are being told.

        Raises:
            ValueError: it has not joined, or is still joining.
        """
        handlers = self._handlers.get(key, {})
        if handler not in handlers:
            raise ValueError(f"{handler!r} cannot leave: expected one that has joined for {key or 'every object'}")
        del handlers[handler]
        if not handlers:
            del self._handlers[key]

    def tell(self, changes: Iterable[Change[T]]) -> None:
        """Tell a few changes. Hold `telling`."""
        for change in changes:
            self._tell_everybody(change)

    async def tell_many(self, changes: Iterable[Change[T]]) -> None:
        """Tell any number of changes, letting others run every few milliseconds. Hold `telling`."""
        if self._handlers:
            await self._in_slices(self._tell_everybody, changes)

    async def _in_slices(self, tell: Callable[[Change[T]], None], changes: Iterable[Change[T]]) -> None:
        loop = asyncio.get_running_loop()
        slice_end = loop.time() + _SLICE_SECONDS
        for change in changes:
            tell(change)
            if loop.time() > slice_end:
                await asyncio.sleep(0)
                slice_end = loop.time() + _SLICE_SECONDS

    def _tell_everybody(self, change: Change[T]) -> None:
        for key in (None, change.key):
            handlers = self._handlers.get(key)
            if handlers is not None:
                self._tell(handlers, change)

    def _tell(self, handlers: dict[Handler[T], None], change: Change[T]) -> None:
        for handler in tuple(handlers):
            if handler not in handlers:
                continue  # one before it has made it leave
            try:
                handler(change)
            except Exception:  # noqa: BLE001 - other people's code must not stop the informer
                self.failures += 1
                _LOG.exception("a subscriber failed", extra={"change": repr(change)})
