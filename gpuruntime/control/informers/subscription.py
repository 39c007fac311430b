"""One subscriber of an informer, and the changes that it has yet to take because it raised."""

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from gpuruntime.aio.retries import Retries
from gpuruntime.control.informers.changes import Change
from gpuruntime.meta.decode_errors import DecodeError
from gpuruntime.meta.identity import ObjectKey

__all__ = ["Handler", "Subscription"]

_LOG = logging.getLogger(__name__)
T = TypeVar("T")
Handler = Callable[[Change[T]], None]
_STEPS_KEPT: Final = 16
_LOG_SECONDS: Final = 1.0


class _Backlog(Generic[T]):
    """The changes of one object that wait, in order, and the error that the first of them met last."""

    def __init__(self) -> None:
        self.changes: deque[Change[T]] = deque()
        self.error: BaseException | None = None
        self.is_unreadable = False

    def failed(self, error: BaseException) -> None:
        """Note what the first change met. A state that does not fit its type fails again: only a change helps."""
        # Its traceback would keep alive whatever the handler had in its hands.
        self.error = error.with_traceback(None)
        self.is_unreadable = isinstance(error, DecodeError) and not _is_readable(self.changes[0])

    def add(self, change: Change[T]) -> None:
        if self.changes and self.is_unreadable:
            first = self.changes.popleft()
            # The state in between cannot be handed over. The one before it is still to be left.
            self.changes.append(change if first.type == "added" else first.joined(change))
        elif len(self.changes) >= _STEPS_KEPT and change.type == "modified":
            self.changes.append(self.changes.pop().joined(change))
        elif len(self.changes) > _STEPS_KEPT and change.type == "deleted" and self.changes[-1].type == "added":
            self.changes.pop()  # it came and went while many changes waited
        else:
            self.changes.append(change)


class Subscription(Generic[T]):
    """Hands changes to a handler, and hands a change that it raised on to it again, later each time.

    Guarantees:
        - The changes of an object arrive in order: while one waits, the later ones wait behind it. A new change of the
          object has the first one tried at once.
        - No state is left out, but for objects that change more than 16 times while they wait: of those the last
          changes are joined, from the oldest state before to the newest after, and one that comes and goes meanwhile
          is left out.
        - A state that cannot be decoded is not tried again: the next change of the object takes its place.
    """

    def __init__(self, handler: Handler[T], name: str, pending: "Retries[tuple[Subscription[T], ObjectKey]]") -> None:
        self.name = name
        self.failures = 0
        self._handler = handler
        self._pending = pending
        self._backlogs: dict[ObjectKey, _Backlog[T]] = {}
        self._logged_at = -math.inf
        self._is_open = True

    @property
    def retrying(self) -> int:
        """How many objects have a change that is tried again."""
        return sum(not backlog.is_unreadable for backlog in self._backlogs.values())

    @property
    def trouble(self) -> str:
        """What it fails at, with one object as an example; empty if nothing is tried again."""
        for key, backlog in self._backlogs.items():
            if not backlog.is_unreadable:
                return f"{self.name} fails on {key} ({_text(backlog.error)}), {self.retrying} to be tried again"
        return ""

    def offer(self, change: Change[T]) -> None:
        """Hand over a change, after those of its object that wait."""
        key = change.key
        backlog = self._backlogs.get(key)
        if backlog is not None:
            backlog.add(change)
            self._work_off(key, backlog)
            return
        error = self._try(change)
        if error is not None and self._is_open:
            backlog = self._backlogs[key] = _Backlog()
            backlog.add(change)
            self._keep(key, backlog, error)

    def retry(self, key: ObjectKey) -> None:
        """Try the changes of an object that wait."""
        backlog = self._backlogs.get(key)
        if backlog is not None:
            self._work_off(key, backlog)

    def close(self) -> None:
        """Hand over nothing more, and forget what waits."""
        self._is_open = False
        for key in self._backlogs:
            self._pending.forget((self, key))
        self._backlogs.clear()

    def _work_off(self, key: ObjectKey, backlog: _Backlog[T]) -> None:
        while backlog.changes:
            error = self._try(backlog.changes[0])
            if not self._is_open:
                return
            if error is not None:
                self._keep(key, backlog, error)
                return
            backlog.changes.popleft()
        del self._backlogs[key]
        self._pending.forget((self, key))
        if not self._backlogs:
            self._logged_at = -math.inf
            _LOG.info("a subscriber recovered", extra={"subscriber": self.name, "key": str(key)})

    def _keep(self, key: ObjectKey, backlog: _Backlog[T], error: BaseException) -> None:
        backlog.failed(error)
        if backlog.is_unreadable:
            self._pending.forget((self, key))
        else:
            self._pending.failed((self, key))

    def _try(self, change: Change[T]) -> BaseException | None:
        try:
            self._handler(change)
        except BaseException as error:
            # A plain function is never cancelled: what it raises is its own failure, whatever the type.
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            self.failures += 1
            self._log(change, error)
            return error
        return None

    def _log(self, change: Change[T], error: BaseException) -> None:
        # A handler may fail on every object of a kind: a line a second says as much as ten thousand.
        now = asyncio.get_running_loop().time()
        if now - self._logged_at >= _LOG_SECONDS:
            self._logged_at = now
            about = {"subscriber": self.name, "change": repr(change), "error": _text(error)}
            _LOG.error("a subscriber failed, will retry", exc_info=error, extra=about)


def _is_readable(change: Change[T]) -> bool:
    try:
        _ = change.after
    except DecodeError:
        return False
    return True


def _text(error: BaseException | None) -> str:
    return f"{type(error).__name__}: {error}"
