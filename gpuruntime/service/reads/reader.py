"""Reads: from the cache, and live where the cache lags; lists page by page.

Every write returns a resourceVersion, on any replica. A read that names it never returns an older state.

Lists are sorted by namespace and name, which never change. So a caller that follows the cursors to the end sees every
object that existed all the time, exactly once, whatever else is created and deleted meanwhile.
"""

import asyncio
import base64
import binascii
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, Generic, TypeVar

from attrs import frozen

from gpuruntime.control import Informer, Store, WaitTimeoutError, deleted, has_reached, wait_for
from gpuruntime.kube import Client, KubeError, NotFoundError
from gpuruntime.meta import ObjectKey, ResourceVersionError, TypedObject, compare_versions, is_dns_subdomain
from gpuruntime.service.errors import NotRunningError, ObjectNotFoundError

__all__ = [
    "CursorError",
    "ReadPage",
    "ReadResult",
    "Reads",
    "cursor_of",
    "is_at_least",
    "oldest",
    "parse_cursor",
    "read_or_none",
    "watched_parts",
]

K = TypeVar("K", bound=TypedObject)
_CATCH_UP_SECONDS: Final = 1.0
_PAGE_GROWTH: Final = 4
_LONGEST_CURSOR: Final = 1024


@frozen
class ReadResult(Generic[K]):
    """An object, and its age: seconds since the cache last heard from the API server, 0 after a live read."""

    object: K
    age: float


@frozen
class ReadPage(Generic[K]):
    """One page of a list: `version` is the resourceVersion that it shows, `next` its last key if there is more."""

    items: tuple[K, ...]
    version: str
    age: float
    next: ObjectKey | None = None


def is_at_least(version: str, wanted: str) -> bool:
    """Whether a version is the wanted one or newer; false if the two cannot be compared."""
    try:
        return compare_versions(version, wanted) >= 0
    except ResourceVersionError:
        return False


def watched_parts(parts: Sequence[str | None], namespaces: Collection[str]) -> tuple[str | None, ...]:
    """The watches of an informer (one per namespace, None is one over all) that cover these namespaces; () is all."""
    return tuple(part for part in parts if part is None or not namespaces or part in namespaces)


class CursorError(ValueError):
    """The text is not the cursor of a page."""


def cursor_of(last: ObjectKey) -> str:
    """The cursor of the page after this object."""
    return base64.urlsafe_b64encode(f"{last.namespace}/{last.name}".encode()).rstrip(b"=").decode()


def parse_cursor(text: str) -> ObjectKey:
    """The object after which a page begins.

    Raises:
        CursorError: the text is not a cursor.
    """
    try:
        padded = text.encode("ascii") + b"=" * (-len(text) % 4)
        is_short = len(text) <= _LONGEST_CURSOR
        decoded = base64.b64decode(padded, altchars=b"-_", validate=True).decode() if is_short else ""
    except (UnicodeError, binascii.Error) as error:
        raise _no_cursor() from error
    namespace, slash, name = decoded.partition("/")
    if not slash or cursor_of(key := ObjectKey(namespace, name)) != text:
        raise _no_cursor()
    return key


def _no_cursor() -> CursorError:
    return CursorError("expected the `next` of an earlier page")


async def read_or_none(client: Client, kind: type[K], key: ObjectKey) -> K | None:
    """Live read of an object; None if it does not exist."""
    try:
        return await client.get(kind, key.name, key.namespace)
    except NotFoundError:
        return None


@frozen
class Reads(Generic[K]):
    """Reads objects of one kind in these namespaces; () is all that the informer watches."""

    informer: Informer[K]
    client: Client
    kind: type[K]
    namespaces: tuple[str, ...] = ()

    async def get(self, key: ObjectKey, at_least: str = "") -> ReadResult[K]:
        """The object at this resourceVersion or newer ("": any); a live read if the cache lags or lacks it.

        Raises:
            ObjectNotFoundError: it does not exist.
            NotRunningError: the cache is not synced yet.
            KubeError: the cache lags, and the API server is not available.
        """
        self.require_synced()
        known = self.informer.store.get(key)
        if known is not None and (not at_least or has_reached(self.informer.store, key, at_least)):
            return ReadResult(known, self.age())
        try:
            # An invalid name would change the path of the URL. Outside of the watched namespaces nothing exists.
            if is_dns_subdomain(key.name) and is_dns_subdomain(key.namespace) and self.covers(key.namespace):
                return ReadResult(await self.client.get(self.kind, key.name, key.namespace), 0.0)
        except NotFoundError as error:
            raise self._missing(key) from error
        raise self._missing(key)

    async def get_newest(self, key: ObjectKey, at_least: str, is_final: Callable[[K], bool]) -> ReadResult[K]:
        """As `get`, but a live read while the cached state is not final: the caller polls for the end, and another
        replica may have shown it already. While the API server is not available, the cached state.

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
        """The next `limit` objects that match, sorted by namespace and name: of one namespace, or of all.

        Raises:
            NotRunningError: the cache is not synced yet.
            KubeError: the cache lags, and the API server is not available.
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
        """All objects by a live list, sorted, and its resourceVersion.

        Raises:
            KubeError: the API server is not available.
        """
        parts = self._parts(None)
        return await self._mixed(parts, set(parts))

    async def caught_up(self, version: str, within: float = _CATCH_UP_SECONDS) -> bool:
        """Whether the cache reaches this version within this time."""
        parts = self._parts(None)
        try:
            async with asyncio.timeout(within):
                await self.informer.until(lambda _: is_at_least(self._version(parts), version))
        except TimeoutError:
            return False
        return True

    async def gone(self, key: ObjectKey, uid: str, within: float) -> bool:
        """Whether the cache shows, within this time, that the object with this UID is gone."""
        try:
            await wait_for(self.informer, key, deleted(uid), within=within)
        except WaitTimeoutError:
            return False
        return True

    def require_synced(self) -> None:
        """Return if the cache is synced.

        Raises:
            NotRunningError: it is not.
        """
        if not self.informer.has_synced:
            raise NotRunningError(f"{self.kind.KIND.plural} cannot be read yet: the cache is not synced; try again")

    def age(self) -> float:
        """Seconds since the cache last heard from the API server."""
        return max(0.0, self.informer.age(asyncio.get_running_loop().time()))

    def _parts(self, namespace: str | None) -> tuple[str | None, ...]:
        return watched_parts(
            watched_parts(self.informer.scope.parts, self.namespaces), (namespace,) if namespace else ()
        )

    async def _behind(self, parts: Sequence[str | None], version: str) -> set[str | None]:
        """The parts that do not show a version.

        The write is in one of them and arrives there in a moment, so this waits for one. The others may be quiet for a
        minute.
        """

        def late(store: Store[K]) -> set[str | None]:
            return {part for part in parts if not is_at_least(store.version_in(part), version)}

        with suppress(TimeoutError):
            async with asyncio.timeout(_CATCH_UP_SECONDS):
                await self.informer.until(lambda store: not parts or len(late(store)) < len(parts))
        return late(self.informer.store)

    async def _mixed(self, parts: Sequence[str | None], live: set[str | None]) -> tuple[list[K], str]:
        """The objects of these parts, the `live` ones by live lists, sorted, and the version that all of them show."""
        items: list[K] = []
        versions: list[str] = []
        for part in sorted(live, key=str):
            listed = await self.client.list(self.kind, part)
            items += listed.items
            versions.append(listed.resource_version)
        cached = [part for part in parts if part not in live]
        for part in cached:
            items += self.informer.store.list(part).items
        # resourceVersions are one sequence for the whole server: each list shows at least what the first one did.
        version = oldest([*versions[:1], *(self.informer.store.version_in(part) for part in cached)])
        return sorted(items, key=lambda item: item.key), version

    def _version(self, parts: Sequence[str | None]) -> str:
        store = self.informer.store
        return oldest([store.version_in(part) for part in parts]) if parts else store.resource_version

    def _cached(self, namespace: str | None, after: ObjectKey | None, size: int) -> Iterator[K]:
        # Nothing else runs between two store pages, so they show one moment. Most pages are full after the first one.
        size += 1
        while True:
            listing = self.informer.store.list(namespace, limit=size, after=after)
            yield from listing.items
            if listing.next is None:
                return
            after, size = listing.next, size * _PAGE_GROWTH

    def covers(self, namespace: str) -> bool:
        """Whether the informer watches this namespace."""
        return not self.informer.scope.namespaces or namespace in self.informer.scope.namespaces

    def _missing(self, key: ObjectKey) -> ObjectNotFoundError:
        return ObjectNotFoundError(f"{self.kind.KIND.kind} {key} does not exist")


def oldest(versions: Sequence[str]) -> str:
    """The oldest of these versions; "" if they cannot be compared."""
    return next((one for one in versions if all(is_at_least(other, one) for other in versions)), "")


def _cut(found: Iterable[K], limit: int, version: str, age: float) -> ReadPage[K]:
    items: list[K] = []
    for item in found:
        if len(items) == limit:
            return ReadPage(tuple(items), version, age, items[-1].key)
        items.append(item)
    return ReadPage(tuple(items), version, age)
