"""The event handlers of an informer: each is called with every change, in order, whatever the others do."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from gpuruntime.aio.retries import Retries
from gpuruntime.control.informers.changes import Change
from gpuruntime.control.informers.subscription import Handler, Subscription
from gpuruntime.meta.identity import ObjectKey

__all__ = ["Dispatcher"]

T = TypeVar("T")
_SLICE_SECONDS = 0.003


class Dispatcher(Generic[T]):
    """Dispatches changes to the subscriptions of one informer: to those of every object, and to those of one.

    The writer of the store holds `lock` from the change of the store until the change is dispatched, so that no handler
    subscribes in between or gets changes out of order. A change costs nothing for subscriptions of other objects.
    """

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self._retries: Retries[tuple[Subscription[T], ObjectKey]] = Retries()
        self._past_failures = 0
        # By the key that they subscribe to, None for all. Dicts, because many may come and go.
        self._subscriptions: dict[ObjectKey | None, dict[Handler[T], Subscription[T]]] = {}

    @property
    def failures(self) -> int:
        """How often a handler raised."""
        return self._past_failures + sum(subscription.failures for subscription in self._all())

    @property
    def retrying(self) -> int:
        """The number of changes that a handler raised on and that are retried."""
        return sum(subscription.retrying for subscription in self._all())

    @property
    def failing(self) -> tuple[str, ...]:
        """The handlers that are retried, each with one object as an example."""
        return tuple(failing for subscription in self._all() if (failing := subscription.failing))

    async def subscribe(
        self,
        handler: Handler[T],
        initial: Callable[[], Iterable[Change[T]]],
        key: ObjectKey | None = None,
        name: str = "",
    ) -> Subscription[T]:
        """Dispatch to `handler` the initial changes, then every change, or with a key only those of one object."""
        subscription = Subscription(handler, name or getattr(handler, "__qualname__", repr(handler)), self._retries)
        async with self.lock:
            try:
                await self._in_slices(subscription.handle, list(initial()))
            except BaseException:
                self._close(subscription)
                raise
            self._subscriptions.setdefault(key, {})[handler] = subscription
        return subscription

    def unsubscribe(self, handler: Handler[T], key: ObjectKey | None = None) -> None:
        """Dispatch nothing more to `handler`, which subscribed with this key, not even a change that is under way.

        Raises:
            ValueError: it has not subscribed, or its initial changes are still under way.
        """
        subscriptions = self._subscriptions.get(key, {})
        if handler not in subscriptions:
            raise ValueError(
                f"cannot unsubscribe {handler!r}: expected a handler that has subscribed to {key or 'every object'}"
            )
        self._close(subscriptions.pop(handler))
        if not subscriptions:
            del self._subscriptions[key]

    def dispatch(self, changes: Iterable[Change[T]]) -> None:
        """Dispatch a few changes. Hold `lock`."""
        for change in changes:
            self._dispatch(change)

    async def dispatch_all(self, changes: Iterable[Change[T]]) -> None:
        """Dispatch any number of changes, yielding to the loop every few milliseconds. Hold `lock`."""
        if self._subscriptions:
            await self._in_slices(self._dispatch, changes)

    async def run_retries(self) -> None:
        """Retry the changes that handlers raised on, until cancelled."""
        while True:
            subscription, key = await self._retries.next()
            async with self.lock:
                subscription.retry(key)
            await asyncio.sleep(0)

    async def _in_slices(self, dispatch: Callable[[Change[T]], None], changes: Iterable[Change[T]]) -> None:
        loop = asyncio.get_running_loop()
        slice_end = loop.time() + _SLICE_SECONDS
        for change in changes:
            dispatch(change)
            if loop.time() > slice_end:
                await asyncio.sleep(0)
                slice_end = loop.time() + _SLICE_SECONDS

    def _dispatch(self, change: Change[T]) -> None:
        for key in (None, change.key):
            subscriptions = self._subscriptions.get(key)
            if subscriptions is not None:
                for handler, subscription in tuple(subscriptions.items()):
                    if handler in subscriptions:  # a handler before it may have unsubscribed it
                        subscription.handle(change)

    def _close(self, subscription: Subscription[T]) -> None:
        self._past_failures += subscription.failures
        subscription.close()

    def _all(self) -> Iterable[Subscription[T]]:
        return (one for subscriptions in self._subscriptions.values() for one in subscriptions.values())
