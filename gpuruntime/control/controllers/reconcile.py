"""The one act of a controller: look at the world for a key, and bring it closer to what it should be."""

import math
from collections.abc import Awaitable, Callable
from types import CoroutineType
from typing import Generic, Protocol, Self, TypeVar

from attrs import field, frozen

from gpuruntime.control.controllers.usage import check_answer
from gpuruntime.control.informers.store import Store
from gpuruntime.meta.identity import ObjectKey

__all__ = ["Cause", "Context", "ObjectReconciler", "Reconciler", "Result", "TerminalError"]

K_contra = TypeVar("K_contra", contravariant=True)
T = TypeVar("T")


class TerminalError(Exception):
    """Trying again is pointless until something changes: raise it from a reconciler to be left alone until then."""


@frozen
class Cause:
    """Why a key was put on the queue: the source, what happened, to which object, and when (loop time)."""

    source: str
    what: str
    object: str = ""
    at: float = field(default=0.0, eq=False)


@frozen
class Result:
    """What a reconciler wants next. Make one with `done` or `after`; to be tried again with backoff, raise."""

    seconds: float | None = field(default=None)

    @seconds.validator
    def _is_a_delay(self, _: object, value: float | None) -> None:
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise TypeError(f"expected seconds as a number, got {value!r}")
        if value is not None and not 0 < value < math.inf:
            raise ValueError(f"expected finite seconds above 0, got {value}: raise an error to be tried again at once")

    @classmethod
    def done(cls) -> Self:
        """Nothing, until something changes."""
        return cls()

    @classmethod
    def after(cls, seconds: float) -> Self:
        """Another run at a known time, whatever happens.

        Raises:
            ValueError: not a positive, finite number.
            TypeError: no number at all.
        """
        return cls(seconds)


@frozen
class Context:
    """One run of a reconciler: for logs and figures, never for decisions.

    A reconciler that does something else because of its `causes` is wrong: causes are merged, may be lost in a restart,
    and never tell all that happened.
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
    """What a controller runs.

    Guarantees of the controller: never two runs of one key at a time; cancelled when its time is up or the process
    stops; run again after an error, later each time.
    """

    async def reconcile(self, key: K_contra, context: Context) -> Result:
        """Bring the world of `key` closer to what it should be; the object may be gone."""


@frozen
class ObjectReconciler(Generic[T]):
    """A reconciler of objects instead of keys: reads the object from a store and passes it on; an object that is gone
    needs nothing.

    An object that is there and cannot be read is neither: the run fails with QuarantinedError.
    """

    store: Store[T]
    handle: Callable[[T, Context], Awaitable[Result]]

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.store, Store):
            raise TypeError(
                f"expected a store, got {type(self.store).__qualname__}: an informer has one, informer.store"
            )

    async def reconcile(self, key: ObjectKey, context: Context) -> Result:
        obj = self.store.get(key)
        if obj is None:
            return Result.done()
        answer = self.handle(obj, context)
        if type(answer) is not CoroutineType:
            check_answer(answer, self.handle)
        return await answer
