"""An informer: a store of one kind that follows the server, and event handlers that are called for every change."""

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Generic, TypeVar

from attrs import frozen

from gpuruntime.aio.retries import Retries
from gpuruntime.control.informers.dispatcher import Dispatcher
from gpuruntime.control.informers.indexes import Index
from gpuruntime.control.informers.reflector import Collection, Reflector, ReflectorHealth, ReflectorSettings
from gpuruntime.control.informers.storage import Storage
from gpuruntime.control.informers.store import Store, StoreWriter
from gpuruntime.control.informers.subscription import Handler, Subscription
from gpuruntime.kube.transport.middleware import Wire
from gpuruntime.meta.field_selectors import FieldSelector
from gpuruntime.meta.identity import ObjectKey
from gpuruntime.meta.label_selectors import Selector

__all__ = ["Informer", "InformerScope"]

T = TypeVar("T")


@frozen
class InformerScope(Generic[T]):
    """What an informer covers; informers of equal scope are shared. No namespaces means all of them."""

    storage: Storage[T]
    namespaces: tuple[str, ...] = ()
    labels: Selector = Selector()
    fields: FieldSelector = FieldSelector()

    @property
    def parts(self) -> tuple[str | None, ...]:
        """The namespaces to watch one by one, or (None,) to watch all together."""
        return self.namespaces or (None,)

    def collection(self, part: str | None) -> Collection:
        selectors = {"labelSelector": str(self.labels), "fieldSelector": str(self.fields)}
        chosen = tuple((name, text) for name, text in selectors.items() if text)
        storage = self.storage
        return Collection(storage.kind.path(part), storage.accept, storage.list_accept, chosen, part)


class Informer(Generic[T]):
    """Follows the objects of one scope.

    Guarantees:
        - `store` is empty until the first full list has arrived, and complete from then on.
        - The store is updated before event handlers are called. Each handler is called in order, one change at a time;
          an object's changes are never skipped, and neither merged nor repeated unless the handler raises.
        - A handler that raises gets the change again, with backoff, until it returns; the changes of other objects go
          on. See `Subscription`.
        - An object on which an index, a transform or a projection raises is quarantined and retried with backoff. Both
          are logged and counted, and `retrying` counts them while they last.

    Caveats:
        Handlers are plain functions and run on the loop: they should enqueue work and return.
    """

    def __init__(
        self,
        wire: Wire,
        scope: InformerScope[T],
        indexes: Sequence[Index] = (),
        *,
        settings: ReflectorSettings | None = None,
        random: Random | None = None,
    ) -> None:
        self.scope = scope
        self.store: Store[T] = Store(scope.storage, indexes, scope.parts)
        self._dispatcher: Dispatcher[T] = Dispatcher()
        self._writer: StoreWriter[T] = StoreWriter(self.store, self._dispatcher, Retries())
        self._reflectors = [
            Reflector(wire, scope.collection(part), self._writer, settings or ReflectorSettings(), random or Random())
            for part in scope.parts
        ]
        self._is_started = False

    async def run(self) -> None:
        """List and watch until cancelled.

        Raises:
            RuntimeError: it runs, or ran, already.
        """
        kind = self.scope.storage.kind
        if self._is_started:
            raise RuntimeError(f"the informer of {kind} was started before: its cache runs it")
        self._is_started = True
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._dispatcher.run_retries(), name=f"retries of event handlers of {kind}")
            tasks.create_task(self._writer.run_retries(), name=f"retries of indexes of {kind}")
            for reflector in self._reflectors:
                tasks.create_task(reflector.run(), name=f"reflector {reflector.collection.path}")

    @property
    def index_names(self) -> frozenset[str]:
        """The names of its indexes."""
        return self.store.index_names

    def add_indexes(self, indexes: Sequence[Index]) -> None:
        """Add indexes. Before it runs.

        Raises:
            RuntimeError: it runs, or ran, already.
        """
        if not indexes:
            return
        if self._is_started:
            raise RuntimeError(f"the informer of {self.scope.storage.kind} runs: add indexes before that")
        self._writer.add_indexes(indexes)

    @property
    def has_synced(self) -> bool:
        """Whether the store is complete."""
        return self._writer.synced.is_set()

    async def store_synced(self) -> None:
        """Return when the store is complete; event handlers may still be called for what is in it."""
        await self._writer.synced.wait()

    async def synced(self) -> None:
        """Return when the store is complete and the handlers so far have been called for everything in it."""
        await self._writer.dispatched.wait()

    async def until(self, condition: Callable[[Store[T]], bool]) -> None:
        """Return as soon as a condition on the store holds, which is checked after every change and bookmark."""
        await self._writer.until(lambda: condition(self.store))

    async def subscribe(self, handler: Handler[T], key: ObjectKey | None = None, *, name: str = "") -> Subscription[T]:
        """Call `handler` with every change from now on, after one `initial` addition for each object that exists.

        Returns when the initial additions have been dispatched. With a key, the handler gets the changes of that object
        only, and costs nothing while others change. `name` is for log lines and metrics.
        """
        return await self._dispatcher.subscribe(handler, lambda: self._writer.initial(key), key, name)

    def unsubscribe(self, handler: Handler[T], key: ObjectKey | None = None) -> None:
        """Stop calling `handler`, which was subscribed with this key."""
        self._dispatcher.unsubscribe(handler, key)

    @property
    def health(self) -> tuple[ReflectorHealth, ...]:
        """The figures of the reflectors, one for each namespace."""
        return tuple(reflector.health for reflector in self._reflectors)

    @property
    def troubles(self) -> tuple[str, ...]:
        """What is wrong with the watches, and what to do about it; empty if they work."""
        return tuple(sorted({health.trouble for health in self.health if health.trouble}))

    @property
    def handler_failures(self) -> int:
        """How often an event handler raised."""
        return self._dispatcher.failures

    @property
    def index_failures(self) -> int:
        """How often an index, a transform or a projection raised."""
        return self._writer.failures

    @property
    def retrying(self) -> int:
        """The number of objects on which a handler, an index, a transform or a projection raised and is retried."""
        return self._dispatcher.retrying + self._writer.retrying

    @property
    def failing(self) -> tuple[str, ...]:
        """What is retried, and why; empty if nothing is."""
        failing = self._writer.failing
        return (failing, *self._dispatcher.failing) if failing else self._dispatcher.failing

    @property
    def events(self) -> int:
        """The number of watch events after the first list."""
        return sum(self._writer.events.values())

    def events_in(self, part: str | None) -> int:
        """The same for one part of the scope: a namespace that is watched by itself, or None if all are together."""
        return self._writer.events[part]

    def age(self, now: float) -> float:
        """Seconds since the server last answered, on the watch that has waited longest; `now` in loop time."""
        return now - min(health.last_contact for health in self.health)
