"""Making sure that a run does not act on a cache that is behind what it must know."""

import asyncio
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from gpuruntime.control.controllers.journal import Journal, Written
from gpuruntime.control.controllers.reconcile_counters import ReconcileCounters
from gpuruntime.control.informers.cache import Cache
from gpuruntime.control.informers.catching_up import catch_up, shows
from gpuruntime.control.informers.informer import Informer
from gpuruntime.control.informers.store import Store
from gpuruntime.kube.errors import NotFoundError
from gpuruntime.kube.wire import Wire
from gpuruntime.meta.identity import ObjectKey

__all__ = ["Freshness", "StaleCacheError"]

_WAIT_SECONDS = 2.0
_READ_SECONDS = 10.0


class StaleCacheError(Exception):
    """The cache has not caught up with what was written; the run is tried again later, and nothing was done."""


class Freshness:
    """Holds a run of one controller back until the caches show what earlier runs of its key wrote.

    Guarantees:
        A key's run starts only when every informer that would show the writes of its last run does: each object at
        the version that was written or newer, each deleted one gone. If that takes longer than two seconds, or if the
        outcome of a write is unknown, the server is asked; a cache that is still behind fails the run, which is tried
        again.

    Caveats:
        Informers with selectors are not waited for: nobody can tell whether they are to show an object. Nor are
        informers of another version of the API than the one written to. Writes of other keys and of other processes are
        not waited for either. A write whose answer was lost may be executed after the server was asked.
    """

    def __init__(self, cache: Cache, wire: Wire, *, patience: float = _WAIT_SECONDS) -> None:
        self._cache = cache
        self._wire = wire
        self._journal = Journal()
        self._patience = patience

    @contextmanager
    def recording(self, key: Hashable) -> Iterator[None]:
        """Note what is written inside the block, through a `JournalingTransport`, as the writes of `key`."""
        with self._journal.recording(key):
            yield

    async def settle(self, key: Hashable, counters: ReconcileCounters) -> None:
        """Returns when the last run's writes can be seen.

        Raises:
            StaleCacheError: they cannot, although the server knows them.
            KubeError: the server could not be asked.
        """
        waiting = [(written, informer) for written in self._journal.traces(key) for informer in self._showing(written)]
        waiting = [(written, informer) for written, informer in waiting if not _is_shown(informer.store, written)]
        if waiting:
            counters.cache_waits += 1
            try:
                async with asyncio.timeout(self._patience):
                    for written, informer in waiting:
                        if written.fate != "unknown":
                            await informer.until(partial(_is_shown, written=written))
            except TimeoutError:
                pass  # the server decides below
            for written, informer in waiting:
                if not _is_shown(informer.store, written):
                    counters.live_reads += 1
                    await self._ask(written, informer)
        self._journal.settled(key)

    def _showing(self, written: Written) -> Sequence[Informer[Any]]:
        return [informer for informer in self._cache.informers if informer.has_synced and _covers(informer, written)]

    async def _ask(self, written: Written, informer: Informer[Any]) -> None:
        if written.key is None:
            try:
                await catch_up(informer, self._wire, patience=self._patience)
            except TimeoutError:
                raise StaleCacheError(
                    f"the cache of {written.collection} is behind the server, and what was written there is unknown"
                ) from None
            return
        path = f"{written.collection}/{written.key.name}"
        live = await self._read(path)
        # The store is looked at after the server was, and may have caught up meanwhile.
        known = informer.store.version_of(written.key)
        may_appear = written.fate == "gone" and known is None
        if (known != live or may_appear) and not _is_shown(informer.store, written):
            raise StaleCacheError(f"the cache shows {path} as {_described(known)}, the server as {_described(live)}")

    async def _read(self, path: str) -> tuple[str, str] | None:
        """UID and resource version of an object on the server, None if there is none."""
        try:
            answer = await self._wire.request("GET", path, timeout=_READ_SECONDS)
        except NotFoundError:
            return None
        metadata = answer.json_object().get("metadata") or {}
        return str(metadata.get("uid", "")), str(metadata.get("resourceVersion", ""))


def _covers(informer: Informer[Any], written: Written) -> bool:
    scope = informer.scope
    if scope.labels.requirements or scope.fields.terms:
        return False
    if scope.namespaces and written.namespace not in scope.namespaces:
        return False
    kind = scope.storage.kind
    return kind.path(written.namespace if kind.namespaced else None) == written.collection


def _is_shown(store: Store[Any], written: Written) -> bool:
    if written.key is None:
        return False
    if written.fate == "gone":
        return _is_gone(store, written.key, written)
    return shows(store, written.key, written.version)


def _is_gone(store: Store[Any], key: ObjectKey, written: Written) -> bool:
    known = store.version_of(key)
    if known is None:
        # Absent is not gone if the store has not heard of the object yet: it may still be about to appear.
        return not written.version or shows(store, key, written.version)
    return bool(written.uid) and known[0] != written.uid


def _described(state: tuple[str, str] | None) -> str:
    return "absent" if state is None else f"{state[0]} at {state[1]}"
