"""A full state in pages: while one is taken in, the next is under way."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Self

import orjson
from attrs import field, frozen

from gpuruntime.kube.errors import UnexpectedResponseError, excerpt
from gpuruntime.kube.transport.response import Response

__all__ = ["Page", "PageSize", "PagesAhead", "read_page"]

_ITEMS = b'"items":['
_METADATA = b'"metadata":{'
_LONGEST_OPENING = 1024


@frozen
class Page:
    """One answer to a list: its place in the whole, and its items, still to be parsed.

    `token` is where the next page begins, "" on the last one.
    """

    version: str
    token: str
    size: int
    items: Iterator[tuple[dict[str, Any], int]] = field(repr=False)
    """Each object with the number of bytes that it took, to be taken once; items that are no objects are left out.

    Built-in kinds are listed without the apiVersion and kind of each object; here they have them, as in a watch.
    """


class PageSize:
    """How many objects to ask for: few at first, then what makes up a page of `aim` bytes, `most` at most.

    So neither ten thousand small objects nor a thousand of a megabyte each are a problem.
    """

    def __init__(self, most: int, aim: int) -> None:
        self._most = most
        self._aim = aim
        self.next = min(most, 100)

    def learn(self, count: int, size: int) -> None:
        """A page of so many objects had so many bytes."""
        if count and size:
            self.next = max(1, min(self._most, self._aim * count // size))


class PagesAhead(AsyncIterator[Page]):
    """The pages of a list, in order; the next one is fetched while its reader is busy with this one.

    Use it as an async context manager: leaving it ends the request under way.
    """

    def __init__(self, fetch: Callable[[dict[str, str]], Awaitable[Response]], size: PageSize) -> None:
        self._fetch = fetch
        self._size = size
        self._upcoming: asyncio.Task[Page] | None = None

    async def __aenter__(self) -> Self:
        self._upcoming = asyncio.create_task(self._next({}))
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._upcoming is not None:
            self._upcoming.cancel()
            await asyncio.gather(self._upcoming, return_exceptions=True)

    async def __anext__(self) -> Page:
        if self._upcoming is None:
            raise StopAsyncIteration
        page = await self._upcoming
        self._upcoming = asyncio.create_task(self._next({"continue": page.token})) if page.token else None
        # The request goes out before the page is worked on.
        await asyncio.sleep(0)
        return page

    async def _next(self, place: dict[str, str]) -> Page:
        limit = self._size.next
        answer = await self._fetch({"limit": str(limit), **place})
        page = read_page(answer)
        if page.token and page.token == place.get("continue"):
            # Whoever does not look at the token would be asked for ever.
            raise UnexpectedResponseError(f"{answer.request}: expected the next page, found one that leads to itself")
        if page.token:
            self._size.learn(limit, page.size)
        return page


def read_page(answer: Response) -> Page:
    """Read the answer to a list.

    Its items are parsed one by one, as they are taken: that costs less than parsing the whole at once, and holds nobody
    up for longer than one item.

    Raises:
        UnexpectedResponseError: it is no list with a version, such as the HTML page of a gateway, which must not be
            taken for an empty collection. Items that turn out to be no JSON raise it from the iterator.
    """
    cut = _cut(answer.body)
    around = answer.json_object() if cut is None else cut[0]
    kind, metadata, items = around.get("kind"), around.get("metadata"), around.get("items")
    is_list = isinstance(kind, str) and kind.endswith("List") and (items is None or isinstance(items, list))
    version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    if not is_list or not isinstance(metadata, dict) or not isinstance(version, str) or not version:
        raise UnexpectedResponseError(
            f"{answer.request}: expected a list with metadata.resourceVersion, found {excerpt(answer.body)}"
        )
    parsed = _whole(answer, 0) if cut is None else _one_by_one(answer, *cut[1])
    identity = {"apiVersion": around.get("apiVersion"), "kind": str(kind).removesuffix("List")}
    return Page(version, str(metadata.get("continue") or ""), len(answer.body), _objects(parsed, identity))


def _objects(items: Iterator[tuple[Any, int]], identity: dict[str, Any]) -> Iterator[tuple[dict[str, Any], int]]:
    missing = {name: value for name, value in identity.items() if value}
    for item, size in items:
        if isinstance(item, dict):
            yield (item if "kind" in item else {**missing, **item}), size


def _cut(body: bytes) -> tuple[dict[str, Any], tuple[int, int]] | None:
    """What stands around the items, and where they are; None if that cannot be told without parsing it all."""
    start, end = body.find(_ITEMS) + len(_ITEMS), body.rfind(b"]")
    if start < len(_ITEMS) or end < start:
        return None
    try:
        # If a number in their place turns up as the only item, then this is their place.
        around = orjson.loads(body[:start] + b"0" + body[end:])
    except orjson.JSONDecodeError:
        return None
    is_whole = isinstance(around, dict) and around.get("items") == [0] and "metadata" in around
    return (around, (start, end)) if is_whole else None


def _one_by_one(answer: Response, start: int, end: int) -> Iterator[tuple[Any, int]]:
    """Cut the items where one ends and another begins as the first one did.

    That may be in the middle of an item that holds such things itself. But pieces that each are JSON are the items,
    whatever is in them; and at the first that is not, the parser is asked for the rest.
    """
    body = answer.body
    opening_end = body.find(_METADATA, start, min(end, start + _LONGEST_OPENING)) + len(_METADATA)
    if opening_end < len(_METADATA):
        yield from _whole(answer, 0)
        return
    border = b"}," + body[start:opening_end]
    number, begin = 0, start
    while begin < end:
        found = body.find(border, begin, end)
        stop = end if found < 0 else found + 1
        try:
            item = orjson.loads(memoryview(body)[begin:stop])
        except orjson.JSONDecodeError:
            yield from _whole(answer, number)
            return
        yield item, stop - begin
        number, begin = number + 1, stop + 1


def _whole(answer: Response, first: int) -> Iterator[tuple[Any, int]]:
    items = answer.json_object().get("items") or []
    mean = len(answer.body) // max(len(items), 1)
    return ((item, mean) for item in items[first:])
