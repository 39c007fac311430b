"""The watch log: recent changes of the objects of a kind, for live followers and for those that resume.

The log is the only buffer: a follower holds a position in it. A follower that falls behind the start of the log
restarts from a snapshot. So slow followers cost no memory, however many there are.
"""

import asyncio
from collections import deque
from collections.abc import Collection
from itertools import takewhile
from typing import Final, Generic, TypeVar

from attrs import frozen

from gpuruntime.aio import Turns
from gpuruntime.control import Change, Informer
from gpuruntime.meta import TypedObject
from gpuruntime.service.errors import NotRunningError
from gpuruntime.service.reads.reader import is_at_least, oldest, watched_parts

__all__ = ["Snapshot", "Step", "WatchLog"]

K = TypeVar("K", bound=TypedObject)
_LOG_SIZE: Final = 2048


@frozen
class Step(Generic[K]):
    """One change of one object. `version` is its resourceVersion: that of the deletion if there is no `after`."""

    version: str
    before: K | None
    after: K | None


@frozen
class Snapshot(Generic[K]):
    """All objects at one moment, their resourceVersion, and the position in the log from which to follow."""

    items: tuple[K, ...]
    version: str
    position: int


class WatchLog(Generic[K]):
    """The latest changes of an informer's objects in these namespaces; () is all that it watches.

    Guarantees:
        - The steps of one object are in order, with no gap between two steps in the log.
        - After a relist, which may hide changes, the log starts again.

    Caveats:
        A follower can resume by resourceVersion only if one watch covers everything. An informer of several namespaces
        has several watches at different versions; then `can_resume` is false, unless the log covers one of them.
    """

    def __init__(self, informer: Informer[K], size: int = _LOG_SIZE, namespaces: Collection[str] = ()) -> None:
        self._parts = watched_parts(informer.scope.parts, namespaces)
        self.can_resume = len(self._parts) == 1
        self._informer = informer
        self._size = size
        self._steps: deque[Step[K]] = deque()
        self._end = 0
        self._floor = ""
        self._events = 0
        self._waiting: dict[asyncio.Future[None], None] = {}
        self._snapshot: Snapshot[K] | None = None
        self._is_following = False
        self.turns = Turns()
        """Followers wait here for their turn whenever they have something to send: there may be thousands."""

    async def run(self) -> None:
        """Follow the informer until cancelled; then close the log."""
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
        """Wake all followers: there is nothing more to follow."""
        self._is_following = False
        self._wake()

    @property
    def is_following(self) -> bool:
        """Whether the log is filled, and continues."""
        return self._is_following

    @property
    def version(self) -> str:
        """The resourceVersion up to which the log is complete."""
        return oldest([self._informer.store.version_in(part) for part in self._parts])

    def snapshot(self) -> Snapshot[K]:
        """All objects as they are now.

        Raises:
            NotRunningError: the log is not filled yet, or closed.
        """
        self._require_following()
        known, version = self._snapshot, self.version
        # Followers that start between two steps share one snapshot.
        if known is None or (known.position, known.version) != (self._end, version):
            items = tuple(item for part in self._parts for item in self._informer.store.list(part).items)
            known = self._snapshot = Snapshot(items, version, self._end)
        return known

    def position_of(self, version: str) -> int | None:
        """The position for a follower that has seen everything up to a version; None if the log does not reach back.

        Raises:
            NotRunningError: the log is not filled yet, or closed.
        """
        self._require_following()
        known = self.can_resume and is_at_least(version, self._floor)
        if not known or not is_at_least(self.version, version):
            return None
        # One watch delivers changes in the order of their versions.
        unseen = takewhile(lambda step: not is_at_least(version, step.version), reversed(self._steps))
        return self._end - sum(1 for _ in unseen)

    def since(self, position: int) -> tuple[Step[K], ...] | None:
        """The steps from a position on; None if the log does not reach back."""
        first = self._end - len(self._steps)
        if position < first:
            return None
        return tuple(self._steps[index] for index in range(position - first, len(self._steps)))

    async def more(self, position: int, within: float) -> None:
        """Return when there is a step from this position on, when the log is closed, or after `within` seconds.

        Followers that wait for the same step return one after the other.
        """
        if not self._is_following or self._end != position:
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
        # A change without a watch event comes from a relist: changes in between are unknown.
        events = sum(map(self._informer.events_in, self._parts))
        is_event = events != self._events
        self._events = events
        # The version of its own watch: another one may be far behind.
        version = self._informer.store.version_in(change.key.namespace)
        if change.initial or not (is_event or self._is_namesake(change, version)):
            self._restart(version)
            return
        self._steps.append(
            Step(version if change.type == "deleted" else change.resource_version, change.before, change.after)
        )
        self._end += 1
        if len(self._steps) > self._size:
            self._floor = self._steps.popleft().version
        self._wake()

    def _is_namesake(self, change: Change[K], version: str) -> bool:
        """Whether this is the second change of one event: a deletion, and a new object of the same name."""
        last = self._steps[-1] if self._steps else None
        if last is None or last.before is None or last.after is not None or change.type != "added":
            return False
        return last.version == version and last.before.key == change.key

    def _restart(self, version: str) -> None:
        if not self._steps and self._floor == version:
            return
        self._steps.clear()
        self._floor = version
        # Invalidates the positions of all followers.
        self._end += 1
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, {}
        self.turns.enqueue(waiting)

    def _require_following(self) -> None:
        if not self._is_following:
            plural = self._informer.scope.storage.kind.plural
            raise NotRunningError(f"{plural} cannot be followed now: this process starts or stops; try again")
