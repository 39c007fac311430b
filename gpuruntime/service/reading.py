"""Reads: from the cache, and live where the cache does not know enough.

A caller who wrote something, here or on another replica, was given a version. A read that names it is never answered
from before the write.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Generic, TypeVar

from attrs import frozen

from gpuruntime.control import Informer, WaitTimeoutError, deleted, wait_for
from gpuruntime.control.informers.catching_up import shows
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import NotFoundError
from gpuruntime.meta.identity import ObjectKey
from gpuruntime.meta.names import is_dns_subdomain
from gpuruntime.meta.objects import TypedObject
from gpuruntime.meta.resource_version import ResourceVersionError, compare
from gpuruntime.service.errors import NotRunningError, ObjectNotFoundError

__all__ = ["Reads", "Seen", "SeenPage", "is_at_least"]

K = TypeVar("K", bound=TypedObject)
_CATCH_UP_SECONDS: Final = 1.0
_MORE_AT_A_TIME: Final = 4


@frozen
class Seen(Generic[K]):
    """An object, and how many seconds ago the cluster was last heard of; 0 if it was asked just now."""

    object: K
    age: float


@frozen
class SeenPage(Generic[K]):
    """A part of a list: `version` is what it shows, `next` the last object of it if there is more."""

    items: tuple[K, ...]
    version: str
    age: float
    next: ObjectKey | None = None


def is_at_least(version: str, wanted: str) -> bool:
    """Whether a version is the wanted one or newer; what cannot be compared is not."""
    try:
        return compare(version, wanted) >= 0
    except ResourceVersionError:
        return False


@frozen
class Reads(Generic[K]):
    """Reads objects of one kind."""

    informer: Informer[K]
    client: Client
    kind: type[K]

    async def get(self, key: ObjectKey, at_least: str = "") -> Seen[K]:
        """The object, in the state of this version or newer ("": any). What the cache does not have is read live.

        Raises:
            ObjectNotFoundError: there is none.
            NotRunningError: the cache is not filled yet.
            KubeError: the cache does not know enough, and the server is away.
        """
        self.require_synced()
        known = self.informer.store.get(key)
        if known is not None and (not at_least or shows(self.informer.store, key, at_least)):
            return Seen(known, self.age())
        try:
            # What can be no name would make another path of it, and where nothing is looked for nothing is found.
            if is_dns_subdomain(key.name) and is_dns_subdomain(key.namespace) and self._covers(key.namespace):
                return Seen(await self.client.get(self.kind, key.name, key.namespace), 0.0)
        except NotFoundError as error:
            raise self._missing(key) from error
        raise self._missing(key)

    async def page(
        self,
        matches: Callable[[K], bool],
        *,
        limit: int,
        namespace: str | None = None,
        after: ObjectKey | None = None,
        at_least: str = "",
    ) -> SeenPage[K]:
        """The next objects that match, in the order of namespace and name.

        Raises:
            NotRunningError: the cache is not filled yet.
            KubeError: the cache does not know enough, and the server is away.
        """
        self.require_synced()
        if at_least and not await self.caught_up(at_least, namespace=namespace):
            found, version = await self.list_live(namespace)
            rest = (item for item in found if after is None or item.key > after)
            return _cut(filter(matches, rest), limit, version, 0.0)
        found_now = filter(matches, self._cached(namespace, after, limit))
        return _cut(found_now, limit, self.informer.store.version_in(namespace), self.age())

    async def list_live(self, namespace: str | None = None) -> tuple[list[K], str]:
        """All objects as they are on the server now, in order, and the version of that.

        Raises:
            KubeError: the server is away.
        """
        if namespace is not None and not self._covers(namespace):
            return [], self.informer.store.resource_version
        parts = self.informer.scope.parts if namespace is None else (namespace,)
        lists = [await self.client.list(self.kind, part) for part in parts]
        items = sorted((item for one in lists for item in one.items), key=lambda item: item.key)
        # Each list shows at least what the first one showed.
        return items, lists[0].resource_version

    async def caught_up(self, version: str, within: float = _CATCH_UP_SECONDS, *, namespace: str | None = None) -> bool:
        """Whether the cache shows this version, of a namespace or of all, now or after a moment."""
        try:
            async with asyncio.timeout(within):
                await self.informer.until(lambda store: is_at_least(store.version_in(namespace), version))
        except TimeoutError:
            return False
        return True

    async def gone(self, key: ObjectKey, uid: str, within: float) -> bool:
        """Whether the cache shows that the object with this UID is gone, now or within so many seconds."""
        try:
            await wait_for(self.informer, key, deleted(uid), within=within)
        except WaitTimeoutError:
            return False
        return True

    def require_synced(self) -> None:
        """Pass if the cache is filled.

        Raises:
            NotRunningError: it is not.
        """
        if not self.informer.has_synced:
            raise NotRunningError(f"{self.kind.KIND.plural} cannot be read yet: the cache is being filled")

    def age(self) -> float:
        """How many seconds ago the cluster was last heard of."""
        return max(0.0, self.informer.age(asyncio.get_running_loop().time()))

    def _cached(self, namespace: str | None, after: ObjectKey | None, size: int) -> Iterator[K]:
        # Nothing else runs between two parts, so they are of one moment. Most pages are full after the first one.
        size += 1
        while True:
            listing = self.informer.store.list(namespace, limit=size, after=after)
            yield from listing.items
            if listing.next is None:
                return
            after, size = listing.next, size * _MORE_AT_A_TIME

    def _covers(self, namespace: str) -> bool:
        return not self.informer.scope.namespaces or namespace in self.informer.scope.namespaces

    def _missing(self, key: ObjectKey) -> ObjectNotFoundError:
        return ObjectNotFoundError(f"{self.kind.KIND.kind} {key}: found none of this name")


def _cut(found: Iterable[K], limit: int, version: str, age: float) -> SeenPage[K]:
    items: list[K] = []
    for item in found:
        if len(items) == limit:
            return SeenPage(tuple(items), version, age, items[-1].key)
        items.append(item)
    return SeenPage(tuple(items), version, age)
