"""What a reconciler is and returns: it reads the state of a key and brings it closer to the desired one."""

import math
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, Self, TypeVar

from attrs import field, frozen

from gpuruntime.control.controllers.usage import check_awaitable
from gpuruntime.control.informers.store import Store
from gpuruntime.meta.identity import ObjectKey

__all__ = ["Cause", "ObjectReconciler", "Reconciler", "Result", "RunInfo", "TerminalError", "UndeclaredError"]

K_contra = TypeVar("K_contra", contravariant=True)
T = TypeVar("T")


class TerminalError(Exception):
    """A failure that a retry cannot mend: the key is not reconciled again before something changes."""


class UndeclaredError(TerminalError):
    """A reconciler used what its controller does not declare; the message says what to add to the builder."""


@frozen
class Cause:
    """Why a key was enqueued: the source, what happened, to which object, and when (loop time)."""

    source: str
    what: str
    object: str = ""
    at: float = field(default=0.0, eq=False)


@frozen
class Result:
    """What follows a run: `Result.done()` or `Result.after(seconds)`. To be retried with backoff, raise."""

    seconds: float | None = field(default=None)

    @seconds.validator
    def _is_a_delay(self, _: object, value: float | None) -> None:
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise TypeError(f"expected seconds as a number, got {value!r}")
        if value is not None and not 0 < value < math.inf:
            raise ValueError(f"expected finite seconds above 0, got {value}: raise an error to be retried with backoff")

    @classmethod
    def done(cls) -> Self:
        """No further run until something changes."""
        return cls()

    @classmethod
    def after(cls, seconds: float) -> Self:
        """Another run after these seconds (RequeueAfter), or earlier if something changes.

        Raises:
            ValueError: not a positive, finite number.
            TypeError: no number at all.
        """
        return cls(seconds)


@frozen
class RunInfo:
    """One run of a reconciler of the lower layer: for logs and metrics, never for decisions.

    `causes` are merged, may be lost in a restart, and never list all that happened. `waited` is seconds in the queue,
    `started` is loop time.
    """

    controller: str
    reconcile_id: str
    attempt: int
    causes: tuple[Cause, ...]
    waited: float
    started: float

    @property
    def age(self) -> float:
        """Seconds from the oldest cause to the start of the run."""
        return max((self.started - cause.at for cause in self.causes), default=0.0)


class Reconciler(Protocol[K_contra]):
    """What a controller of the lower layer runs; `manager.controller(...)` takes functions instead.

    Guarantees of the controller: never two runs of one key at a time; cancelled at its timeout and when the process
    stops; retried with backoff after an error.
    """

    async def reconcile(self, key: K_contra, context: RunInfo) -> Result:
        """Bring the state of `key` closer to the desired one; the object may be gone."""


@frozen
class ObjectReconciler(Generic[T]):
    """A reconciler of objects instead of keys, for the lower layer: reads the object from a store and passes it on. For
    an object that is gone it does nothing; for one that cannot be read the run fails with QuarantinedError.
    """

    store: Store[T]
    handle: Callable[[T, RunInfo], Awaitable[Result]]

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.store, Store):
            raise TypeError(
                f"expected a store, got {type(self.store).__qualname__}: an informer has one, informer.store"
            )

    async def reconcile(self, key: ObjectKey, context: RunInfo) -> Result:
        obj = self.store.get(key)
        if obj is None:
            return Result.done()
        run = self.handle(obj, context)
        check_awaitable(run, self.handle)
        return await run
