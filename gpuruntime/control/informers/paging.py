"""A full list in pages: while one is taken in, the next is requested."""

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
    """One page of a list: its version, the continue token, and its items, not yet parsed.

    `token` is for the next page, "" on the last one.
    """

    version: str
    token: str
    size: int
    items: Iterator[tuple[dict[str, Any], int]] = field(repr=False)
    """Each object with its size in bytes, to be iterated once; items that are not objects are left out.

    A list of a built-in kind has no apiVersion and kind in its items; they are added here, as in a watch.
    """


class PageSize:
    """The limit of the next page: small at first, then as many objects as make about `aim` bytes, at most `most`.

    So pages suit ten thousand small objects as well as a thousand of a megabyte each.
    """

    def __init__(self, most: int, aim: int) -> None:
        self._most = most
        self._aim = aim
        self.next = min(most, 100)

    def learn(self, count: int, size: int) -> None:
        """Note that a page of `count` objects had `size` bytes."""
        if count and size:
            self.next = max(1, min(self._most, self._aim * count // size))


class PagesAhead(AsyncIterator[Page]):
    """The pages of a list, in order; the next one is requested while the current one is processed.

    Use it as an async context manager: leaving it cancels the request in flight.
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
        # The request is sent before the page is processed.
        await asyncio.sleep(0)
        return page

    async def _next(self, place: dict[str, str]) -> Page:
        limit = self._size.next
        response = await self._fetch({"limit": str(limit), **place})
        page = read_page(response)
        if page.token and page.token == place.get("continue"):
            # A server that ignores the token would be asked forever.
            raise UnexpectedResponseError(
                f"{response.request}: expected the next page, found the same continue token again"
            )
        if page.token:
            self._size.learn(limit, page.size)
        return page


def read_page(response: Response) -> Page:
    """Read the response to a list.

    Its items are parsed one by one, as they are iterated: that costs less than parsing the whole at once, and blocks
    the loop for one item at most.

    Raises:
        UnexpectedResponseError: it is not a list with a version, such as the page of a gateway, which must not be taken
            for an empty collection. The iterator raises it for items that are not JSON.
    """
    cut = _cut(response.body)
    around = response.json_object() if cut is None else cut[0]
    kind, metadata, items = around.get("kind"), around.get("metadata"), around.get("items")
    is_list = isinstance(kind, str) and kind.endswith("List") and (items is None or isinstance(items, list))
    version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    if not is_list or not isinstance(metadata, dict) or not isinstance(version, str) or not version:
        raise UnexpectedResponseError(
            f"{response.request}: expected a list with metadata.resourceVersion, found {excerpt(response.body)}"
        )
    parsed = _whole(response, 0) if cut is None else _one_by_one(response, *cut[1])
    identity = {"apiVersion": around.get("apiVersion"), "kind": str(kind).removesuffix("List")}
    return Page(version, str(metadata.get("continue") or ""), len(response.body), _objects(parsed, identity))


def _objects(items: Iterator[tuple[Any, int]], identity: dict[str, Any]) -> Iterator[tuple[dict[str, Any], int]]:
    missing = {name: value for name, value in identity.items() if value}
    for item, size in items:
        if isinstance(item, dict):
            yield (item if "kind" in item else {**missing, **item}), size


def _cut(body: bytes) -> tuple[dict[str, Any], tuple[int, int]] | None:
    """The list without its items, and where they are; None if that takes parsing all of it."""
    start, end = body.find(_ITEMS) + len(_ITEMS), body.rfind(b"]")
    if start < len(_ITEMS) or end < start:
        return None
    try:
        # If a number put in their place is the only item, then this is their place.
        around = orjson.loads(body[:start] + b"0" + body[end:])
    except orjson.JSONDecodeError:
        return None
    is_whole = isinstance(around, dict) and around.get("items") == [0] and "metadata" in around
    return (around, (start, end)) if is_whole else None


def _one_by_one(response: Response, start: int, end: int) -> Iterator[tuple[Any, int]]:
    """Split the items where one ends and the next begins with the same bytes as the first.

    That may be in the middle of an item that contains those bytes. But pieces that are each valid JSON are the items;
    from the first piece that is not, the parser of the whole list takes over.
    """
    body = response.body
    opening_end = body.find(_METADATA, start, min(end, start + _LONGEST_OPENING)) + len(_METADATA)
    if opening_end < len(_METADATA):
        yield from _whole(response, 0)
        return
    border = b"}," + body[start:opening_end]
    number, begin = 0, start
    while begin < end:
        found = body.find(border, begin, end)
        stop = end if found < 0 else found + 1
        try:
            item = orjson.loads(memoryview(body)[begin:stop])
        except orjson.JSONDecodeError:
            yield from _whole(response, number)
            return
        yield item, stop - begin
        number, begin = number + 1, stop + 1


def _whole(response: Response, first: int) -> Iterator[tuple[Any, int]]:
    items = response.json_object().get("items") or []
    mean = len(response.body) // max(len(items), 1)
    return ((item, mean) for item in items[first:])
