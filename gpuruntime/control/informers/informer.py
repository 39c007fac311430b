"""An informer: a store of one kind that follows the server, and tells its subscribers what changes."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from random import Random
from typing import Generic, TypeVar

from attrs import field, frozen

from gpuruntime.aio.retries import Retries
from gpuruntime.control.informers.audience import Audience
from gpuruntime.control.informers.changes import Change
from gpuruntime.control.informers.indexes import Index
from gpuruntime.control.informers.milestones import Milestones
from gpuruntime.control.informers.reflection import Collection, ReflectorHealth, ReflectorSettings
from gpuruntime.control.informers.reflector import Reflector
from gpuruntime.control.informers.shelf import Memory, Shelf
from gpuruntime.control.informers.storage import Storage
from gpuruntime.control.informers.store import Store
from gpuruntime.control.informers.store_writer import StoreWriter
from gpuruntime.control.informers.subscription import Handler, Subscription
from gpuruntime.kube.watching import WatchEvent
from gpuruntime.kube.wire import Wire
from gpuruntime.meta.field_selectors import FieldSelector
from gpuruntime.meta.identity import ObjectKey
from gpuruntime.meta.label_selectors import Selector

__all__ = ["Informer", "InformerScope"]

_LOG = logging.getLogger(__name__)
T = TypeVar("T")


@frozen
class InformerScope(Generic[T]):
    """What an informer covers; informers of equal scope are one. No namespaces means all of them."""

    storage: Storage[T]
    namespaces: tuple[str, ...] = ()
    labels: Selector = Selector()
    fields: FieldSelector = FieldSelector()

    @property
    def parts(self) -> tuple[str | None, ...]:
        """The collections to watch: one for each namespace, or one for all."""
        return self.namespaces or (None,)

    def collection(self, part: str | None) -> Collection:
        selectors = {"labelSelector": str(self.labels), "fieldSelector": str(self.fields)}
        chosen = tuple((name, text) for name, text in selectors.items() if text)
        storage = self.storage
        return Collection(storage.kind.path(part), storage.accept, storage.list_accept, chosen)


class Informer(Generic[T]):
    """Follows the objects of one scope.

    Guarantees:
        - `store` is empty until the first full state has arrived, and complete from then on.
        - The store is updated before subscribers are told. Each subscriber is told in order, one change at a time; an
          object's changes are never skipped, and neither merged nor repeated unless the subscriber raises.
        - A subscriber that raises gets the change again, with backoff, until it takes it; the changes of other
          objects go on. See `Subscription`.
        - An object on which an index, a transform or a projection raises is in quarantine, and has another try at them
          with backoff. Both are logged and counted, and `retrying` shows them while they last.

    Caveats:
        Handlers are plain functions and run on the loop: they should note what is to be done, and do it elsewhere.
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
        self._memory = Memory(scope.storage, indexes, scope.parts)
        self.store: Store[T] = Store(self._memory)
        self._audience: Audience[T] = Audience()
        self._milestones = Milestones()
        self._unsynced = set(scope.parts)
        self._synced = asyncio.Event()
        self._told = asyncio.Event()
        self._is_started = False
        self._unkept: Retries[ObjectKey] = Retries()
        self._writer: StoreWriter[T] = StoreWriter(self._memory, self._unkept)
        self._parts = [
            _Part(self._writer, self._audience, self._milestones, part, self._filled, self._told_all)
            for part in scope.parts
        ]
        self._reflectors = [
            Reflector(wire, scope.collection(part.scope), part, settings or ReflectorSettings(), random or Random())
            for part in self._parts
        ]

    async def run(self) -> None:
        """Follow the server until cancelled.

        Raises:
            RuntimeError: it runs, or ran, already.
        """
        if self._is_started:
            raise RuntimeError(f"the informer of {self.scope.storage.kind} was started before: its cache runs it")
        self._is_started = True
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._audience.keep_trying(), name=f"retries of subscribers to {self.scope.storage.kind}")
            tasks.create_task(self._keep_trying(), name=f"retries of indexes of {self.scope.storage.kind}")
            for reflector in self._reflectors:
                tasks.create_task(reflector.run(), name=f"reflector {reflector.collection.path}")

    @property
    def index_names(self) -> frozenset[str]:
        """The names of its indexes."""
        return frozenset(index.name for index in self._memory.shelf.indexes)

    def add_indexes(self, indexes: Sequence[Index]) -> None:
        """Add indexes. Before it runs.

        Raises:
            RuntimeError: it runs, or ran, already.
        """
        if not indexes:
            return
        if self._is_started:
            raise RuntimeError(f"the informer of {self.scope.storage.kind} runs: add indexes before that")
        self._memory.add_indexes(indexes)

    @property
    def has_synced(self) -> bool:
        """Whether the store is complete."""
        return self._synced.is_set()

    async def store_synced(self) -> None:
        """Returns when the store is complete; subscribers may still be hearing of what is in it."""
        await self._synced.wait()

    async def synced(self) -> None:
        """Returns when the store is complete and the subscribers so far have been told of everything in it."""
        await self._told.wait()

    async def until(self, condition: Callable[[Store[T]], bool]) -> None:
        """Returns as soon as the store fulfils a condition, which is looked at after every change and bookmark."""
        await self._milestones.reached(lambda: condition(self.store))

    async def subscribe(self, handler: Handler[T], key: ObjectKey | None = None, *, name: str = "") -> Subscription[T]:
        """Tell `handler` every change from now on, after one `initial` addition for each object that is there.

        With a key, it is told of that object only, and costs nothing while others change. Returns when these additions
        have been told. `name` is how people read it if it fails.
        """
        return await self._audience.join(handler, lambda: self._present(key), key, name)

    def unsubscribe(self, handler: Handler[T], key: ObjectKey | None = None) -> None:
        """Tell `handler`, which was subscribed with this key, nothing more."""
        self._audience.leave(handler, key)

    @property
    def health(self) -> tuple[ReflectorHealth, ...]:
        """The figures of the watches, one for each namespace."""
        return tuple(reflector.health for reflector in self._reflectors)

    @property
    def troubles(self) -> tuple[str, ...]:
        """What is wrong with the watches, and what to do about it; nothing if all is well."""
        return tuple(sorted({health.trouble for health in self.health if health.trouble}))

    @property
    def handler_failures(self) -> int:
        """How often a subscriber raised."""
        return self._audience.failures

    @property
    def index_failures(self) -> int:
        """How often an index, a transform or a projection raised."""
        return self._memory.failures

    @property
    def retrying(self) -> int:
        """How many objects a subscriber, an index, a transform or a projection raised on and is to be tried again."""
        return self._audience.retrying + len(self._memory.shelf.retried)

    @property
    def failing(self) -> tuple[str, ...]:
        """What is tried again, and why; nothing if all is well."""
        retried = self._memory.shelf.retried
        first = next(iter(retried.values()), None)
        if first is None:
            return self._audience.troubles
        fault = f"an index, transform or projection fails on {first.key} ({first.fault}), {len(retried)} to be tried"
        return (f"{fault} again", *self._audience.troubles)

    @property
    def events(self) -> int:
        """How many events came after the first state."""
        return sum(part.counter.events for part in self._parts)

    def events_in(self, part: str | None) -> int:
        """The same for one part of the scope: a namespace that is watched by itself, or None where all are together."""
        return next(one.counter.events for one in self._parts if one.scope == part)

    def age(self, now: float) -> float:
        """Seconds since the server was last heard of, by the watch that has waited longest; `now` in loop time."""
        return now - min(health.last_contact for health in self.health)

    async def _keep_trying(self) -> None:
        while True:
            key = await self._unkept.next()
            async with self._audience.telling:
                self._audience.tell(self._writer.retry(key))
                self._milestones.step()
            await asyncio.sleep(0)

    def _present(self, key: ObjectKey | None) -> list[Change[T]]:
        known = self._memory.shelf.entries
        entries = known.values() if key is None else [known[key]] if key in known else []
        return [Change(self.scope.storage, None, entry, initial=True) for entry in entries if entry.fault is None]

    def _filled(self, scope: str | None) -> None:
        self._unsynced.discard(scope)
        if not self._unsynced:
            self._synced.set()

    def _told_all(self) -> None:
        if not self._unsynced:
            self._told.set()


class _Counter:
    def __init__(self) -> None:
        self.events = 0


@frozen
class _Part(Generic[T]):
    """What one namespace's reflector writes to."""

    writer: StoreWriter[T]
    audience: Audience[T]
    milestones: Milestones
    scope: str | None
    filled: Callable[[str | None], None]
    told: Callable[[], None]
    counter: _Counter = field(factory=_Counter)

    def draft(self) -> Shelf:
        return self.writer.draft()

    async def replace(self, draft: Shelf, version: str) -> None:
        async with self.audience.telling:
            changes = self.writer.replace(self.scope, draft, version)
            self.filled(self.scope)
            self.milestones.step()
            await self.audience.tell_many(changes)
            self.told()

    async def take(self, event: WatchEvent) -> None:
        async with self.audience.telling:
            self.counter.events += 1
            try:
                if event.type == "DELETED":
                    changes = self.writer.remove(self.scope, event.raw)
                else:
                    changes = self.writer.apply(self.scope, event.raw, event.size)
            except ValueError as error:
                _LOG.warning("object without a name passed over", extra={"error": str(error)})
                return
            self.audience.tell(changes)
            self.milestones.step()

    def reached(self, version: str) -> None:
        self.writer.reached(self.scope, version)
        self.milestones.step()
