"""The cache: the informers of one cluster, each shared by all that ask for it."""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any, TypeVar, cast

from gpuruntime.control.informers.cache_errors import CacheError, NotSyncedError
from gpuruntime.control.informers.index_paths import path_fault
from gpuruntime.control.informers.indexes import Index
from gpuruntime.control.informers.informer import Informer, InformerScope
from gpuruntime.control.informers.reflector import ReflectorSettings
from gpuruntime.control.informers.storage import Eager, OfForm, Storage
from gpuruntime.kube.forms import Form, as_form, class_of
from gpuruntime.kube.transport.middleware import Wire
from gpuruntime.meta.field_selectors import FieldSelector, parse_field_selector
from gpuruntime.meta.label_selectors import Selector, parse_selector

__all__ = ["Cache", "CacheError", "NotSyncedError", "storage_of"]

T = TypeVar("T")


class Cache:
    """Creates informers, shares them, and runs them.

    Guarantees:
        - The same kind in the same form, namespaces and selectors is one informer: one watch, one store.
        - Indexes of one informer are merged, whichever asks first, until the cache runs.
        - An informer that is asked for while the cache runs starts at once.

    Caveats:
        One kind in two forms is two stores that may be at different versions. Ask for one.
    """

    def __init__(self, wire: Wire, *, settings: ReflectorSettings | None = None, random: Random | None = None) -> None:
        self._wire = wire
        self._settings = settings or ReflectorSettings()
        self._random = random or Random()
        self._informers: dict[InformerScope[Any], Informer[Any]] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._is_started = False

    def informer(
        self,
        what: type[T] | Form[T] | Storage[T],
        *,
        namespaces: Sequence[str] = (),
        labels: str | Selector = "",
        fields: str | FieldSelector = "",
        indexes: Sequence[Index] = (),
    ) -> Informer[T]:
        """The informer of a kind: a typed class or a form (kept decoded), or a storage that says how to keep it.

        Without namespaces, all of them are watched.

        Raises:
            CacheError: the informer runs without one of the indexes, an index is by a field that the kind does not
                have, or a namespace is empty.
            TypeError: a text in the place of a list of namespaces.
            ValueError: namespaces of a kind that has none, or a selector that cannot be parsed.
        """
        storage = storage_of(what)
        _check_paths(storage, indexes)
        if isinstance(namespaces, str):
            raise TypeError(f"expected a list of namespaces, got {namespaces!r}: namespaces=[{namespaces!r}]")
        if "" in namespaces:
            raise CacheError(
                f"one of the namespaces of {storage.kind} is empty: pass no namespaces to watch all of them"
            )
        scope = InformerScope(
            storage,
            tuple(sorted(set(namespaces))),
            parse_selector(labels) if isinstance(labels, str) else labels,
            parse_field_selector(fields) if isinstance(fields, str) else fields,
        )
        known = self._informers.get(scope)
        if known is None:
            informer: Informer[T] = Informer(self._wire, scope, indexes, settings=self._settings, random=self._random)
            self._informers[scope] = informer
            if self._tasks is not None:
                self._start(informer)
            return informer
        missing = {index.name: index for index in indexes if index.name not in known.index_names}
        if missing and self._is_started:
            raise CacheError(
                f"the informer of {storage.kind} runs without the index {', '.join(sorted(missing))}: ask for it before"
                " the manager runs"
            )
        known.add_indexes(tuple(missing.values()))
        return known

    @property
    def informers(self) -> tuple[Informer[Any], ...]:
        return tuple(self._informers.values())

    async def run(self) -> None:
        """Run all informers until cancelled.

        Raises:
            RuntimeError: it runs, or ran, already.
        """
        if self._is_started:
            raise RuntimeError(
                "the cache was started before: a manager runs its own; create another cache to run again"
            )
        self._is_started = True
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                for informer in self.informers:
                    self._start(informer)
                await asyncio.Event().wait()
            finally:
                self._tasks = None

    async def synced(self, within: float | None = None) -> None:
        """Returns when every informer asked for so far is complete and its event handlers have seen all of it.

        Raises:
            NotSyncedError: that took longer than `within` seconds.
        """
        try:
            async with asyncio.timeout(within):
                for informer in self.informers:
                    await informer.synced()
        except TimeoutError:
            late = [_lateness(informer) for informer in self.informers if not informer.has_synced]
            reason = "; ".join(late) or "event handlers are still running"
            raise NotSyncedError(f"not synced within {within} s: {reason}") from None

    def _start(self, informer: Informer[Any]) -> None:
        assert self._tasks is not None  # noqa: S101 - callers check
        self._tasks.create_task(informer.run(), name=f"informer {informer.scope.storage.kind}")


def storage_of(what: type[T] | Form[T] | Storage[T]) -> Storage[T]:
    """The storage itself, or the one that keeps objects of a class or a form decoded."""
    if hasattr(what, "keep"):
        return cast("Storage[T]", what)
    return Eager(as_form(what))


def _check_paths(storage: Storage[Any], indexes: Sequence[Index]) -> None:
    cls = class_of(storage.form) if isinstance(storage, OfForm) else None
    for index in indexes:
        fault = path_fault(cls, index.path) if cls is not None and index.path else ""
        if fault:
            raise CacheError(f"the index {index.name!r} of {storage.kind} would find nothing: {fault}")


def _lateness(informer: Informer[Any]) -> str:
    return f"{informer.scope.storage.kind} ({', '.join(informer.troubles) or 'no response yet'})"
