"""What replies say about the state that they show."""

from collections.abc import Callable, Mapping
from typing import Final, TypeVar
from urllib.parse import quote

from gpuruntime.meta import EMPTY, FrozenDict, ObjectKey, Struct, TypedObject
from gpuruntime.service.reads.paging import cursor_of
from gpuruntime.service.reads.reader import ReadPage, ReadResult, Reads
from gpuruntime.web.server.route import NOT_OLDER_THAN, PREFIX, Page, Reply

__all__ = ["listed", "location", "of_deletion", "of_page", "of_seen", "of_written", "shown"]

K = TypeVar("K", bound=TypedObject)
_SEEN_SECONDS: Final = 2.0


def shown(version: str) -> Mapping[str, str]:
    """Which version a reply shows, for reads that must not show an older one."""
    return {NOT_OLDER_THAN: version} if version else {}


def of_written(written: TypedObject) -> FrozenDict[str, str]:
    """The headers of an object that was just written or read live."""
    version = written.metadata.resource_version
    return FrozenDict({"ETag": f'"{version}"', **shown(version)})


def of_seen(seen: ReadResult[K]) -> FrozenDict[str, str]:
    """The headers of an object that was read, perhaps from a cache: Age is when the cluster was last heard of."""
    return of_written(seen.object) | {"Age": str(int(seen.age))}


def of_page(page: ReadPage[K]) -> FrozenDict[str, str]:
    """The headers of a part of a list."""
    return FrozenDict({"Age": str(int(page.age)), **shown(page.version)})


def listed(page: ReadPage[K], view: Callable[[K], Struct]) -> Reply:
    """The reply with a part of a list, as callers see it."""
    views = tuple(map(view, page.items))
    return Reply(200, Page(views, "" if page.next is None else cursor_of(page.next)), of_page(page))


async def of_deletion(reads: Reads[K], key: ObjectKey, uid: str | None) -> FrozenDict[str, str]:
    """The headers of a deletion that was just made: which version shows it, if we see it in time."""
    is_seen = await reads.gone(key, uid or "", _SEEN_SECONDS)
    return FrozenDict(shown(reads.informer.store.version_in(key.namespace)) if is_seen else EMPTY)


def location(path: str, key: ObjectKey) -> Mapping[str, str]:
    """Where a new object is; `path` is that of its collection."""
    return {"Location": f"{PREFIX}{path}/{quote(key.name)}?namespace={quote(key.namespace)}"}
