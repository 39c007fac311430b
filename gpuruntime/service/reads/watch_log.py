"""What happened lately to the objects of a kind, for those who follow live and for those who come back.

The log is the only buffer: whoever follows has a place in it, and who falls behind its beginning starts anew from the
full state. So any number of slow followers cost no memory.
"""

import asyncio
from collections import deque
from collections.abc import Collection
from itertools import takewhile
from typing import Final, Generic, TypeVar

from attrs import frozen

from gpuruntime.aio.turns import Turns
from gpuruntime.control import Change, Informer
from gpuruntime.meta import TypedObject
from gpuruntime.service.errors import NotRunningError
from gpuruntime.service.reads.reader import is_at_least, oldest, watched_parts

__all__ = ["ChangeLog", "Snapshot", "Step"]

K = TypeVar("K", bound=TypedObject)
_STEPS_KEPT: Final = 2048


@frozen
class Step(Generic[K]):
    """One step of one object's life. `version` is when it happened: that of the deletion if there is no `after`."""

    version: str
    before: K | None
    after: K | None


@frozen
class Snapshot(Generic[K]):
    """All objects at one moment, its version, and the place in the log from which to follow on."""

    items: tuple[K, ...]
    version: str
    place: int


class ChangeLog(Generic[K]):
    """The last steps of all objects that an informer follows, in the namespaces among `places`; () is all of them.

    Guarantees:
        - The steps of one object are in order, and none is left out between two that are kept.
        - After a gap in the watch, when steps may have been missed, the log begins anew.

    Caveats:
        Versions say where to go on only if one watch covers everything. An informer of several namespaces has several,
        which are not in step; then `can_resume` is false, unless the log is of one of them.
    """

    def __init__(self, informer: Informer[K], kept: int = _STEPS_KEPT, places: Collection[str] = ()) -> None:
        self._parts = watched_parts(informer.scope.parts, places)
        self.can_resume = len(self._parts) == 1
        self._informer = informer
        self._kept = kept
        self._steps: deque[Step[K]] = deque()
        self._end = 0
        self._floor = ""
        self._events = 0
        self._waiting: dict[asyncio.Future[None], None] = {}
        self._snapshot: Snapshot[K] | None = None
        self._is_following = False
        self.turns = Turns()
        """Those who follow wait here for their turn whenever they have something to do: there may be thousands."""

    async def run(self) -> None:
        """Follow the informer until cancelled; then whoever waits for more is told that there is none."""
        await self._informer.subscribe(self._take)
        try:
            await self._informer.synced()
            if not self._steps:
                self._floor = self.version
            self._is_following = True
            await asyncio.get_running_loop().create_future()
        finally:
            self.close()
            self._informer.unsubscribe(self._take)

    def close(self) -> None:
        """Tell whoever follows that there is nothing more to come."""
        self._is_following = False
        self._wake()

    @property
    def is_following(self) -> bool:
        """Whether there is, and will be, something to follow."""
        return self._is_following

    @property
    def version(self) -> str:
        """The version up to which all that happened is in the log, or before its beginning."""
        return oldest([self._informer.store.version_in(part) for part in self._parts])

    def snapshot(self) -> Snapshot[K]:
        """Everything as it is now.

        Raises:
            NotRunningError: this process does not follow yet, or any more.
        """
        self._require_following()
        known, version = self._snapshot, self.version
        # Those who begin between two steps share one.
        if known is None or (known.place, known.version) != (self._end, version):
            items = tuple(item for part in self._parts for item in self._informer.store.list(part).items)
            known = self._snapshot = Snapshot(items, version, self._end)
        return known

    def place_of(self, version: str) -> int | None:
        """The place from which somebody goes on who has seen everything up to a version; None if the log forgot it.

        Raises:
            NotRunningError: this process does not follow yet, or any more.
        """
        self._require_following()
        known = self.can_resume and is_at_least(version, self._floor)
        if not known or not is_at_least(self.version, version):
            return None
        # One watch tells of steps in the order of their versions.
        unseen = takewhile(lambda step: not is_at_least(version, step.version), reversed(self._steps))
        return self._end - sum(1 for _ in unseen)

    def since(self, place: int) -> tuple[Step[K], ...] | None:
        """The steps from a place on; None if some of them are forgotten."""
        first = self._end - len(self._steps)
        if place < first:
            return None
        return tuple(self._steps[index] for index in range(place - first, len(self._steps)))

    async def more(self, place: int, within: float) -> None:
        """Returns when there is something from this place on, or nothing to follow any more, or it takes too long.

        Of those who wait for the same step, each returns in its turn.
        """
        if not self._is_following or self._end != place:
            return
        loop = asyncio.get_running_loop()
        waiting = loop.create_future()
        self._waiting[waiting] = None
        late = loop.call_later(within, self.turns.enqueue, (waiting,))
        try:
            await waiting
        finally:
            late.cancel()
            self._waiting.pop(waiting, None)

    def _take(self, change: Change[K]) -> None:
        if not {None, change.key.namespace} & set(self._parts):
            return
        # A state that the reflector fetched as a whole is told without an event: what happened in between is not known.
        events = sum(map(self._informer.events_in, self._parts))
        is_event = events != self._events
        self._events = events
        # That of its own watch: another one may be far behind.
        version = self._informer.store.version_in(change.key.namespace)
        if change.initial or not (is_event or self._is_namesake(change, version)):
            self._begin_anew(version)
            return
        self._steps.append(
            Step(version if change.type == "deleted" else change.resource_version, change.before, change.after)
        )
        self._end += 1
        if len(self._steps) > self._kept:
            self._floor = self._steps.popleft().version
        self._wake()

    def _is_namesake(self, change: Change[K], version: str) -> bool:
        """Whether one event told of a deletion and of the object that got the name after it."""
        last = self._steps[-1] if self._steps else None
        if last is None or last.before is None or last.after is not None or change.type != "added":
            return False
        return last.version == version and last.before.key == change.key

    def _begin_anew(self, version: str) -> None:
        if not self._steps and self._floor == version:
            return
        self._steps.clear()
        self._floor = version
        # Nobody's place is in the log any more.
        self._end += 1
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, {}
        self.turns.enqueue(waiting)

    def _require_following(self) -> None:
        if not self._is_following:
            raise NotRunningError(f"{self._informer.scope.storage.kind.plural} cannot be followed now: try again")
