"""A consistent read from the cache: wait until an informer has everything that its server holds now.

The version of a fresh list is no help: it counts changes of every kind, and an informer learns of those by bookmarks
only, once a minute. So the objects themselves are compared.
"""

import asyncio
from typing import Any

from gpuruntime.control.informers.informer import Informer
from gpuruntime.control.informers.reflector import Collection
from gpuruntime.control.informers.store import Store
from gpuruntime.kube.transport.middleware import Wire
from gpuruntime.kube.transport.request import Request
from gpuruntime.meta.identity import ObjectKey
from gpuruntime.meta.resource_version import ResourceVersionError, compare_versions

__all__ = ["has_reached", "not_older", "wait_for_consistent_read"]

_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_PAGE = "500"
_SECONDS = 30.0


async def wait_for_consistent_read(informer: Informer[Any], wire: Wire, *, within: float | None = None) -> None:
    """Return when the informer's store holds everything that the server held when this was called, or newer.

    Costs a list of the metadata of all objects.

    Raises:
        KubeError: the list failed.
        TimeoutError: after the list, a watch was still behind after `within` seconds.
    """
    for part in informer.scope.parts:
        missing = await _Missing.between(informer.scope.collection(part), part, informer.store, wire)
        async with asyncio.timeout(within):
            await informer.until(missing.is_empty)


class _Missing:
    """The objects whose listed state a store has not reached yet.

    What a store has reached stays, or gives way to something newer. So each object is checked until it is there, and
    never again: checking is cheap after every change.
    """

    def __init__(self, version: str, listed: list[tuple[ObjectKey, str]], deleted: list[tuple[ObjectKey, str]]) -> None:
        self._version = version
        self._listed = listed
        self._deleted = deleted

    @classmethod
    async def between(cls, collection: Collection, part: str | None, store: Store[Any], wire: Wire) -> "_Missing":
        live: dict[ObjectKey, str] = {}
        params = dict(collection.selectors) | {"limit": _PAGE}
        while True:
            response = await wire.send(
                Request("GET", collection.path, params=tuple(params.items()), accept=_METADATA, timeout=_SECONDS)
            )
            page = response.json_object()
            for item in page.get("items") or ():
                metadata = item["metadata"]
                key = ObjectKey(metadata.get("namespace", ""), metadata["name"])
                live[key] = metadata["resourceVersion"]
            metadata = page.get("metadata") or {}
            if not metadata.get("continue"):
                break
            params["continue"] = metadata["continue"]
            await asyncio.sleep(0)
        known = {key: store.version_of(key) for key in store if part is None or key.namespace == part}
        deleted = [(key, state[0]) for key, state in known.items() if state is not None and key not in live]
        return cls(str(metadata.get("resourceVersion", "")), list(live.items()), deleted)

    def is_empty(self, store: Store[Any]) -> bool:
        while self._listed and has_reached(store, *self._listed[-1]):
            self._listed.pop()
        while self._deleted and not self._is_behind_deletion(store, *self._deleted[-1]):
            self._deleted.pop()
        return not self._listed and not self._deleted

    def _is_behind_deletion(self, store: Store[Any], key: ObjectKey, uid: str) -> bool:
        """Whether the store still has an object that was not listed; a newer state of it came after the list."""
        known = store.version_of(key)
        return known is not None and known[0] == uid and not not_older(known[1], self._version)


def has_reached(store: Store[Any], key: ObjectKey, version: str) -> bool:
    """Whether a store has reached a version of an object.

    The object may be another one by now, or deleted: the store is then past that version.
    """
    known = store.version_of(key)
    return not_older(store.version_in(key.namespace) if known is None else known[1], version)


def not_older(version: str, than: str) -> bool:
    """Whether a version is the same or newer; False if the two cannot be compared."""
    try:
        return version == than or compare_versions(version, than) >= 0
    except ResourceVersionError:
        return False
