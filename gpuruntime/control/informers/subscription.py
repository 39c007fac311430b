"""One event handler of an informer, and the changes that it raised on, which are retried."""

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
    """The undelivered changes of one object, in order, and the last error of the first one."""

    def __init__(self) -> None:
        self.changes: deque[Change[T]] = deque()
        self.error: BaseException | None = None
        self.is_unreadable = False

    def failed(self, error: BaseException) -> None:
        """Note the error of the first change. Retrying does not help if the state does not fit its type."""
        # Its traceback would keep alive what the handler refers to.
        self.error = error.with_traceback(None)
        self.is_unreadable = isinstance(error, DecodeError) and not _is_readable(self.changes[0])

    def add(self, change: Change[T]) -> None:
        if self.changes and self.is_unreadable:
            first = self.changes.popleft()
            # The unreadable state cannot be delivered. The one before it was, so the change begins there.
            self.changes.append(change if first.type == "added" else first.merged(change))
        elif len(self.changes) >= _STEPS_KEPT and change.type == "modified":
            self.changes.append(self.changes.pop().merged(change))
        elif len(self.changes) > _STEPS_KEPT and change.type == "deleted" and self.changes[-1].type == "added":
            self.changes.pop()  # added and deleted while many changes waited
        else:
            self.changes.append(change)


class Subscription(Generic[T]):
    """Calls a handler with changes, and retries with backoff those that it raises on.

    Guarantees:
        - The changes of an object are delivered in order: while one is retried, the later ones wait behind it. A new
          change of the object causes a retry at once.
        - No state is left out, except for an object that changes more than 16 times while it waits: its last changes
          are merged, from the oldest state before to the newest after, and an addition with its deletion is left out.
        - A state that cannot be decoded is not retried: the next change of the object takes its place.
    """

    def __init__(self, handler: Handler[T], name: str, retries: "Retries[tuple[Subscription[T], ObjectKey]]") -> None:
        self.name = name
        self.failures = 0
        self._handler = handler
        self._retries = retries
        self._backlogs: dict[ObjectKey, _Backlog[T]] = {}
        self._logged_at = -math.inf
        self._is_open = True

    @property
    def retrying(self) -> int:
        """The number of objects with a change that is retried."""
        return sum(not backlog.is_unreadable for backlog in self._backlogs.values())

    @property
    def failing(self) -> str:
        """What the handler fails on, with one object as an example; empty if nothing is retried."""
        for key, backlog in self._backlogs.items():
            if not backlog.is_unreadable:
                return f"handler {self.name} fails on {key} ({_text(backlog.error)}), retrying {self.retrying}"
        return ""

    def handle(self, change: Change[T]) -> None:
        """Deliver a change, after those of its object that wait."""
        key = change.key
        backlog = self._backlogs.get(key)
        if backlog is not None:
            backlog.add(change)
            self._deliver(key, backlog)
            return
        error = self._try(change)
        if error is not None and self._is_open:
            backlog = self._backlogs[key] = _Backlog()
            backlog.add(change)
            self._retry_later(key, backlog, error)

    def retry(self, key: ObjectKey) -> None:
        """Deliver the changes of an object that wait."""
        backlog = self._backlogs.get(key)
        if backlog is not None:
            self._deliver(key, backlog)

    def close(self) -> None:
        """Deliver nothing more, and drop what waits."""
        self._is_open = False
        for key in self._backlogs:
            self._retries.forget((self, key))
        self._backlogs.clear()

    def _deliver(self, key: ObjectKey, backlog: _Backlog[T]) -> None:
        while backlog.changes:
            error = self._try(backlog.changes[0])
            if not self._is_open:
                return
            if error is not None:
                self._retry_later(key, backlog, error)
                return
            backlog.changes.popleft()
        del self._backlogs[key]
        self._retries.forget((self, key))
        if not self._backlogs:
            self._logged_at = -math.inf
            _LOG.info("event handler recovered", extra={"handler": self.name, "key": str(key)})

    def _retry_later(self, key: ObjectKey, backlog: _Backlog[T], error: BaseException) -> None:
        backlog.failed(error)
        if backlog.is_unreadable:
            self._retries.forget((self, key))
        else:
            self._retries.failed((self, key))

    def _try(self, change: Change[T]) -> BaseException | None:
        try:
            self._handler(change)
        except BaseException as error:
            # A plain function is never cancelled: a CancelledError, too, is a failure of its own.
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            self.failures += 1
            self._log(change, error)
            return error
        return None

    def _log(self, change: Change[T], error: BaseException) -> None:
        # A handler may fail on every object of a kind: at most one line a second.
        now = asyncio.get_running_loop().time()
        if now - self._logged_at >= _LOG_SECONDS:
            self._logged_at = now
            about = {"handler": self.name, "change": repr(change), "error": _text(error)}
            _LOG.error("event handler failed, will retry", exc_info=error, extra=about)


def _is_readable(change: Change[T]) -> bool:
    try:
        _ = change.after
    except DecodeError:
        return False
    return True


def _text(error: BaseException | None) -> str:
    return f"{type(error).__name__}: {error}"
