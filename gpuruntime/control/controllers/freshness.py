"""Read-your-writes: a run waits until the caches show what the last run of its key wrote."""

import asyncio
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from gpuruntime.control.controllers.journal import Journal, Labels, Written
from gpuruntime.control.controllers.reconcile_counters import ReconcileCounters
from gpuruntime.control.controllers.visibility import covers, is_selected, is_shown
from gpuruntime.control.informers.cache import Cache
from gpuruntime.control.informers.consistent_read import wait_for_consistent_read
from gpuruntime.control.informers.informer import Informer
from gpuruntime.kube.errors import NotFoundError
from gpuruntime.kube.transport.middleware import Wire
from gpuruntime.kube.transport.request import Request

__all__ = ["Freshness", "StaleCacheError"]

_WAIT_SECONDS = 2.0
_READ_SECONDS = 10.0


class StaleCacheError(Exception):
    """The cache lags behind what was written; nothing was done, and the run is retried."""


class Freshness:
    """Holds a run of one controller back until the caches show what earlier runs of its key wrote.

    Guarantees:
        A run starts only when every informer that covers the writes of the last run of its key shows them: each object
        at
        the written version or newer, each deleted one gone. If that takes longer than two seconds, or if the outcome of
        a write is unknown, there is a live read; a cache that is still behind fails the run, which is retried.

        An informer with selectors is waited for as far as it will see the writes: until it shows an object that it
        selects, and until it has dropped one that it selects no more.

    Caveats:
        Whether a field selector selects an object is known only for metadata.name and metadata.namespace. An informer
        that selects by other fields is waited for if it shows the object already, not if the object is to appear in it.
        Informers of another version of the API than the one written to are not waited for, and neither are writes of
        other keys and of other processes. A write whose response was lost may be executed after the live read.
    """

    def __init__(self, cache: Cache, wire: Wire, *, patience: float = _WAIT_SECONDS) -> None:
        self._cache = cache
        self._wire = wire
        self._journal = Journal()
        self._patience = patience

    @contextmanager
    def recording(self, key: Hashable) -> Iterator[None]:
        """Record what is written inside the block, through a `JournalingTransport`, as the writes of `key`."""
        with self._journal.recording(key):
            yield

    async def settle(self, key: Hashable, counters: ReconcileCounters) -> None:
        """Returns when the caches show the writes of the last run.

        Raises:
            StaleCacheError: they do not, although the server has them.
            KubeError: the live read failed.
        """
        waiting = [(written, informer) for written in self._journal.traces(key) for informer in self._showing(written)]
        waiting = [(written, informer) for written, informer in waiting if not _shows(informer, written)]
        if waiting:
            counters.cache_waits += 1
            try:
                async with asyncio.timeout(self._patience):
                    for written, informer in waiting:
                        if written.fate != "unknown":
                            await informer.until(partial(is_shown, scope=informer.scope, written=written))
            except TimeoutError:
                pass  # a live read decides below
            for written, informer in waiting:
                if not _shows(informer, written):
                    counters.live_reads += 1
                    await self._ask(written, informer)
        self._journal.settled(key)

    def _showing(self, written: Written) -> Sequence[Informer[Any]]:
        return [
            informer for informer in self._cache.informers if informer.has_synced and covers(informer.scope, written)
        ]

    async def _ask(self, written: Written, informer: Informer[Any]) -> None:
        if written.key is None:
            try:
                await wait_for_consistent_read(informer, self._wire, within=self._patience)
            except TimeoutError:
                raise StaleCacheError(
                    f"the cache of {written.collection} is behind the server, and what was written there is unknown"
                ) from None
            return
        path = f"{written.collection}/{written.key.name}"
        live, labels = await self._read(path)
        if is_selected(informer.scope, written.key, labels) is False:
            live = None
        # The store is read after the server, and may have caught up meanwhile.
        known = informer.store.version_of(written.key)
        leaves = written.fate == "gone" or is_selected(informer.scope, written.key, written.labels) is False
        may_appear = leaves and known is None
        if (known != live or may_appear) and not _shows(informer, written):
            raise StaleCacheError(f"the cache shows {path} as {_described(known)}, the server as {_described(live)}")

    async def _read(self, path: str) -> tuple[tuple[str, str] | None, Labels]:
        """UID and resource version of an object on the server, None if there is none; and its labels."""
        try:
            response = await self._wire.send(Request("GET", path, timeout=_READ_SECONDS))
        except NotFoundError:
            return None, {}
        metadata = response.json_object().get("metadata") or {}
        state = str(metadata.get("uid", "")), str(metadata.get("resourceVersion", ""))
        return state, metadata.get("labels") or {}


def _shows(informer: Informer[Any], written: Written) -> bool:
    return is_shown(informer.store, informer.scope, written)


def _described(state: tuple[str, str] | None) -> str:
    return "absent" if state is None else f"{state[0]} at {state[1]}"
