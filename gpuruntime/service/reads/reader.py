"""Reads: from the cache, and live where the cache does not know enough.

A caller who wrote something, here or on another replica, was given a version. A read that names it is never answered
from before the write.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, Generic, TypeVar

from attrs import frozen

from gpuruntime.control import Informer, Store, WaitTimeoutError, deleted, wait_for
from gpuruntime.control.informers.consistent_read import has_reached
from gpuruntime.kube import Client, KubeError, NotFoundError
from gpuruntime.meta import ObjectKey, ResourceVersionError, TypedObject, is_dns_subdomain
from gpuruntime.meta.resource_version import compare
from gpuruntime.service.errors import NotRunningError, ObjectNotFoundError

__all__ = ["ReadPage", "ReadResult", "Reads", "is_at_least", "oldest", "watched_parts"]

K = TypeVar("K", bound=TypedObject)
_CATCH_UP_SECONDS: Final = 1.0
_MORE_AT_A_TIME: Final = 4


@frozen
class ReadResult(Generic[K]):
    """An object, and how many seconds ago the cluster was last heard of; 0 if it was asked just now."""

    object: K
    age: float


@frozen
class ReadPage(Generic[K]):
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


def watched_parts(parts: Sequence[str | None], places: Collection[str]) -> tuple[str | None, ...]:
    """Of what an informer watches by itself, each namespace or None for all together, what is among these namespaces;
    () is all of it.
    """
    return tuple(part for part in parts if part is None or not places or part in places)


@frozen
class Reads(Generic[K]):
    """Reads objects of one kind, in the namespaces among `places`; () is all that the informer looks at."""

    informer: Informer[K]
    client: Client
    kind: type[K]
    places: tuple[str, ...] = ()

    async def get(self, key: ObjectKey, at_least: str = "") -> ReadResult[K]:
        """The object, in the state of this version or newer ("": any). What the cache does not have is read live.

        Raises:
            ObjectNotFoundError: there is none.
            NotRunningError: the cache is not filled yet.
            KubeError: the cache does not know enough, and the server is away.
        """
        self.require_synced()
        known = self.informer.store.get(key)
        if known is not None and (not at_least or has_reached(self.informer.store, key, at_least)):
            return ReadResult(known, self.age())
        try:
            # What can be no name would make another path of it, and where nothing is looked for nothing is found.
            if is_dns_subdomain(key.name) and is_dns_subdomain(key.namespace) and self.covers(key.namespace):
                return ReadResult(await self.client.get(self.kind, key.name, key.namespace), 0.0)
        except NotFoundError as error:
            raise self._missing(key) from error
        raise self._missing(key)

    async def get_newest(self, key: ObjectKey, at_least: str, is_final: Callable[[K], bool]) -> ReadResult[K]:
        """As `get`, and live as long as the cache shows a state that is not final: who asks waits for its end, and may
        know already that it has come. While the server is away, it is what the cache shows.

        Raises:
            ObjectNotFoundError, NotRunningError, KubeError: see `get`.
        """
        seen = await self.get(key, at_least)
        if is_final(seen.object):
            return seen
        try:
            return ReadResult(await self.client.get(self.kind, key.name, key.namespace), 0.0)
        except NotFoundError as error:
            raise self._missing(key) from error
        except KubeError:
            return seen

    async def page(
        self,
        matches: Callable[[K], bool],
        *,
        limit: int,
        namespace: str | None = None,
        after: ObjectKey | None = None,
        at_least: str = "",
    ) -> ReadPage[K]:
        """The next objects that match, in the order of namespace and name: of one namespace, or of all.

        Raises:
            NotRunningError: the cache is not filled yet.
            KubeError: the cache does not know enough, and the server is away.
        """
        self.require_synced()
        parts = self._parts(namespace)
        behind = await self._behind(parts, at_least) if at_least else set()
        if behind:
            found, version = await self._mixed(parts, behind)
            rest = (item for item in found if after is None or item.key > after)
            return _cut(filter(matches, rest), limit, version, 0.0 if behind == set(parts) else self.age())
        found_now = filter(matches, self._cached(namespace, after, limit))
        return _cut(found_now, limit, self._version(parts), self.age())

    async def list_live(self) -> tuple[list[K], str]:
        """All objects as they are on the server now, in order, and the version of that.

        Raises:
            KubeError: the server is away.
        """
        parts = self._parts(None)
        return await self._mixed(parts, set(parts))

    async def caught_up(self, version: str, within: float = _CATCH_UP_SECONDS) -> bool:
        """Whether the cache shows this version, now or within so many seconds."""
        parts = self._parts(None)
        try:
            async with asyncio.timeout(within):
                await self.informer.until(lambda _: is_at_least(self._version(parts), version))
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

    def _parts(self, namespace: str | None) -> tuple[str | None, ...]:
        return watched_parts(watched_parts(self.informer.scope.parts, self.places), (namespace,) if namespace else ())

    async def _behind(self, parts: Sequence[str | None], version: str) -> set[str | None]:
        """The parts that do not show a version.

        A write is in one of them, and shows there in a moment. In the others nothing may happen for a minute: for them
        nobody waits.
        """

        def late(store: Store[K]) -> set[str | None]:
            return {part for part in parts if not is_at_least(store.version_in(part), version)}

        with suppress(TimeoutError):
            async with asyncio.timeout(_CATCH_UP_SECONDS):
                await self.informer.until(lambda store: not parts or len(late(store)) < len(parts))
        return late(self.informer.store)

    async def _mixed(self, parts: Sequence[str | None], live: set[str | None]) -> tuple[list[K], str]:
        """The objects of some parts, of which some are read live, in order, and the version that all of them show."""
        items: list[K] = []
        versions: list[str] = []
        for part in sorted(live, key=str):
            listed = await self.client.list(self.kind, part)
            items += listed.items
            versions.append(listed.resource_version)
        cached = [part for part in parts if part not in live]
        for part in cached:
            items += self.informer.store.list(part).items
        # A server counts all its changes in one row: each list shows at least what the first one did.
        version = oldest([*versions[:1], *(self.informer.store.version_in(part) for part in cached)])
        return sorted(items, key=lambda item: item.key), version

    def _version(self, parts: Sequence[str | None]) -> str:
        store = self.informer.store
        return oldest([store.version_in(part) for part in parts]) if parts else store.resource_version

    def _cached(self, namespace: str | None, after: ObjectKey | None, size: int) -> Iterator[K]:
        # Nothing else runs between two parts, so they are of one moment. Most pages are full after the first one.
        size += 1
        while True:
            listing = self.informer.store.list(namespace, limit=size, after=after)
            yield from listing.items
            if listing.next is None:
                return
            after, size = listing.next, size * _MORE_AT_A_TIME

    def covers(self, namespace: str) -> bool:
        """Whether objects of this namespace are looked for at all."""
        return not self.informer.scope.namespaces or namespace in self.informer.scope.namespaces

    def _missing(self, key: ObjectKey) -> ObjectNotFoundError:
        return ObjectNotFoundError(f"{self.kind.KIND.kind} {key}: found none of this name")


def oldest(versions: Sequence[str]) -> str:
    """The oldest of some versions; "" if they cannot be told apart."""
    return next((one for one in versions if all(is_at_least(other, one) for other in versions)), "")


def _cut(found: Iterable[K], limit: int, version: str, age: float) -> ReadPage[K]:
    items: list[K] = []
    for item in found:
        if len(items) == limit:
            return ReadPage(tuple(items), version, age, items[-1].key)
        items.append(item)
    return ReadPage(tuple(items), version, age)
