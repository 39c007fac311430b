"""Lists in pages."""

from collections.abc import AsyncIterator
from typing import Any, Generic, TypeVar

from attrs import evolve, field, frozen

from gpuruntime.kube.errors import UnexpectedResponseError
from gpuruntime.kube.forms import Form
from gpuruntime.kube.transport.middleware import Wire
from gpuruntime.kube.transport.request import Request
from gpuruntime.kube.transport.response import Response

__all__ = ["ListQuery", "ObjectList", "Pages"]

T = TypeVar("T")


@frozen
class ObjectList(Generic[T]):
    """Objects of one kind at one resource version, all of them or a page.

    `continue_token` is for the next page, "" on the last one.
    """

    items: tuple[T, ...]
    resource_version: str
    continue_token: str = field(default="", repr=False)


@frozen
class ListQuery:
    """The parameters of a list. `resource_version` is the oldest acceptable version; None asks for the latest.

    A page size of 0 asks for everything at once.
    """

    labels: str = ""
    fields: str = ""
    resource_version: str | None = None
    page_size: int = 500
    continue_token: str = ""

    def params(self) -> dict[str, str]:
        # The token holds the version, and the server refuses both together. Without resourceVersionMatch, a version in
        # a list with a limit means "exactly this one".
        version = None if self.continue_token else self.resource_version
        params = {
            "labelSelector": self.labels,
            "fieldSelector": self.fields,
            "limit": str(self.page_size or ""),
            "continue": self.continue_token,
            "resourceVersion": version or "",
            "resourceVersionMatch": "NotOlderThan" if version else "",
        }
        return {name: value for name, value in params.items() if value}


class Pages(AsyncIterator[ObjectList[T]]):
    """The pages of one list, in order, each requested when the one before it was taken."""

    def __init__(self, transport: Wire, form: Form[T], namespace: str | None, query: ListQuery, seconds: float) -> None:
        self._transport = transport
        self._form = form
        self._path = form.kind.path(namespace)
        self._query: ListQuery | None = query
        self._seconds = seconds

    async def __anext__(self) -> ObjectList[T]:
        if self._query is None:
            raise StopAsyncIteration
        response = await self._transport.send(
            Request(
                "GET", self._path, params=self._query.params(), accept=self._form.list_accept, timeout=self._seconds
            )
        )
        page = _page(response, self._form)
        self._query = evolve(self._query, continue_token=page.continue_token) if page.continue_token else None
        return page


def _page(response: Response, form: Form[T]) -> ObjectList[T]:
    raw = response.json_object()
    items, metadata = raw.get("items", ""), raw.get("metadata")
    if items is None:
        # Go encodes an empty list as null.
        items = []
    if not _is_list_of_objects(items) or not isinstance(metadata, dict):
        raise UnexpectedResponseError(
            f"{response.request}: expected a list with items and metadata, found {sorted(raw)}"
        )
    return ObjectList(
        items=tuple([form.decode(item) for item in items]),
        resource_version=_text(metadata, "resourceVersion"),
        continue_token=_text(metadata, "continue"),
    )


def _is_list_of_objects(items: Any) -> bool:
    return isinstance(items, list) and all(isinstance(item, dict) for item in items)


def _text(metadata: dict[str, Any], name: str) -> str:
    value = metadata.get(name)
    return value if isinstance(value, str) else ""
