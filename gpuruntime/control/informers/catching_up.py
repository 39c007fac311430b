"""Waiting until an informer shows what its server holds now.

The version of a fresh list is no help: it counts changes of every kind, and an informer hears of those only by
bookmarks, once a minute. So the objects themselves are compared.
"""

import asyncio
from typing import Any

from gpuruntime.control.informers.informer import Informer
from gpuruntime.control.informers.reflection import Collection
from gpuruntime.control.informers.store import Store
from gpuruntime.kube.request import Request
from gpuruntime.kube.wire import Wire
from gpuruntime.meta.identity import ObjectKey
from gpuruntime.meta.resource_version import ResourceVersionError, compare

__all__ = ["catch_up", "not_older", "shows"]

_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_PAGE = "500"
_SECONDS = 30.0


async def catch_up(informer: Informer[Any], wire: Wire, *, patience: float | None = None) -> None:
    """Returns when the informer's store holds everything that the server held when this was called, or something newer.

    Costs a list of the metadata of all objects.

    Raises:
        KubeError: the server could not be asked.
        TimeoutError: once it had been, a watch was still behind after `patience` seconds.
    """
    for part in informer.scope.parts:
        gap = await _Gap.between(informer.scope.collection(part), part, informer.store, wire)
        async with asyncio.timeout(patience):
            await informer.until(gap.is_closed)


class _Gap:
    """What a store does not show yet.

    What is shown once stays shown, or gives way to something newer. So each object is looked at until it is, and never
    again: a gap is cheap to look at after every change.
    """

    def __init__(
        self, version: str, wanted: list[tuple[ObjectKey, str]], doubtful: list[tuple[ObjectKey, str]]
    ) -> None:
        self._version = version
        self._wanted = wanted
        self._doubtful = doubtful

    @classmethod
    async def between(cls, collection: Collection, part: str | None, store: Store[Any], wire: Wire) -> "_Gap":
        live: dict[ObjectKey, str] = {}
        params = dict(collection.selectors) | {"limit": _PAGE}
        while True:
            answer = await wire.send(
                Request("GET", collection.path, params=tuple(params.items()), accept=_METADATA, timeout=_SECONDS)
            )
            page = answer.json_object()
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
        doubtful = [(key, state[0]) for key, state in known.items() if state is not None and key not in live]
        return cls(str(metadata.get("resourceVersion", "")), list(live.items()), doubtful)

    def is_closed(self, store: Store[Any]) -> bool:
        while self._wanted and shows(store, *self._wanted[-1]):
            self._wanted.pop()
        while self._doubtful and not self._may_be_gone(store, *self._doubtful[-1]):
            self._doubtful.pop()
        return not self._wanted and not self._doubtful

    def _may_be_gone(self, store: Store[Any], key: ObjectKey, uid: str) -> bool:
        """Whether the store still shows an object that the server did not have; a newer state came after the list."""
        known = store.version_of(key)
        return known is not None and known[0] == uid and not not_older(known[1], self._version)


def shows(store: Store[Any], key: ObjectKey, version: str) -> bool:
    """Whether a store shows the object of this name at a version or newer.

    It may be another object by now, or have been deleted since: what counts is that the store is not behind.
    """
    known = store.version_of(key)
    return not_older(store.version_in(key.namespace) if known is None else known[1], version)


def not_older(version: str, than: str) -> bool:
    """Whether a version is the same or newer; what cannot be compared is not."""
    try:
        return version == than or compare(version, than) >= 0
    except ResourceVersionError:
        return False
