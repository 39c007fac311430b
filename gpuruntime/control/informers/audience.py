"""The subscribers of an informer: in order, one change at a time, each whatever the others do."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from gpuruntime.aio.retries import Retries
from gpuruntime.control.informers.changes import Change
from gpuruntime.control.informers.subscription import Handler, Subscription
from gpuruntime.meta.identity import ObjectKey

__all__ = ["Audience"]

T = TypeVar("T")
_SLICE_SECONDS = 0.003


class Audience(Generic[T]):
    """The subscribers of one informer: those to every object, and those to one.

    Whoever changes the store holds `telling` from the change until it is told, so that nobody joins in between or is
    told out of order. What is told of an object costs nothing for subscribers to others.
    """

    def __init__(self) -> None:
        self.telling = asyncio.Lock()
        self._pending: Retries[tuple[Subscription[T], ObjectKey]] = Retries()
        self._past_failures = 0
        # By the key that they listen to, None for every one. Dicts, because those who come and go may be many.
        self._handlers: dict[ObjectKey | None, dict[Handler[T], Subscription[T]]] = {}

    @property
    def failures(self) -> int:
        """How often a subscriber raised."""
        return self._past_failures + sum(subscription.failures for subscription in self._all())

    @property
    def retrying(self) -> int:
        """How many changes of objects a subscriber raised on and is to be given again."""
        return sum(subscription.retrying for subscription in self._all())

    @property
    def troubles(self) -> tuple[str, ...]:
        """Which subscribers fail, and at what."""
        return tuple(trouble for subscription in self._all() if (trouble := subscription.trouble))

    async def join(
        self,
        handler: Handler[T],
        present: Callable[[], Iterable[Change[T]]],
        key: ObjectKey | None = None,
        name: str = "",
    ) -> Subscription[T]:
        """Tell `handler` what is present, then every change, or only those of the object with a key."""
        subscription = Subscription(handler, name or getattr(handler, "__qualname__", repr(handler)), self._pending)
        async with self.telling:
            try:
                await self._in_slices(subscription.offer, list(present()))
            except BaseException:
                self._end(subscription)
                raise
            self._handlers.setdefault(key, {})[handler] = subscription
        return subscription

    def leave(self, handler: Handler[T], key: ObjectKey | None = None) -> None:
        """Tell `handler`, which has joined for this key, nothing more, not even the change that others are being told.

        Raises:
            ValueError: it has not joined, or is still joining.
        """
        subscriptions = self._handlers.get(key, {})
        if handler not in subscriptions:
            raise ValueError(f"{handler!r} cannot leave: expected one that has joined for {key or 'every object'}")
        self._end(subscriptions.pop(handler))
        if not subscriptions:
            del self._handlers[key]

    def tell(self, changes: Iterable[Change[T]]) -> None:
        """Tell a few changes. Hold `telling`."""
        for change in changes:
            self._tell(change)

    async def tell_many(self, changes: Iterable[Change[T]]) -> None:
        """Tell any number of changes, letting others run every few milliseconds. Hold `telling`."""
        if self._handlers:
            await self._in_slices(self._tell, changes)

    async def keep_trying(self) -> None:
        """Give subscribers again what they raised on, until cancelled."""
        while True:
            subscription, key = await self._pending.next()
            async with self.telling:
                subscription.retry(key)
            await asyncio.sleep(0)

    async def _in_slices(self, tell: Callable[[Change[T]], None], changes: Iterable[Change[T]]) -> None:
        loop = asyncio.get_running_loop()
        slice_end = loop.time() + _SLICE_SECONDS
        for change in changes:
            tell(change)
            if loop.time() > slice_end:
                await asyncio.sleep(0)
                slice_end = loop.time() + _SLICE_SECONDS

    def _tell(self, change: Change[T]) -> None:
        for key in (None, change.key):
            subscriptions = self._handlers.get(key)
            if subscriptions is not None:
                for handler, subscription in tuple(subscriptions.items()):
                    if handler in subscriptions:  # one before it may have made it leave
                        subscription.offer(change)

    def _end(self, subscription: Subscription[T]) -> None:
        self._past_failures += subscription.failures
        subscription.close()

    def _all(self) -> Iterable[Subscription[T]]:
        return (one for subscriptions in self._handlers.values() for one in subscriptions.values())
