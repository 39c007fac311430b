"""Lists in pages: what is asked for, and what a list that outlives its version does."""

from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from gpuruntime.kube import Client, ExpiredError, UnexpectedResponseError
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.kube.list_pages import ListQuery
from gpuruntime.meta import parse_field_selector, parse_selector

if TYPE_CHECKING:
    from tests.kube.conftest import Serve, TransportTo


class Collection:
    """A server with ten objects, which may forget continue tokens."""

    def __init__(self, *, forgets: bool = False) -> None:
        self.forgets = forgets
        self.queries: list[dict[str, str]] = []

    async def __call__(self, request: web.BaseRequest) -> web.Response:
        query = dict(request.query)
        self.queries.append(query)
        if self.forgets and "continue" in query:
            return web.json_response({"kind": "Status", "code": 410, "reason": "Expired"}, status=410)
        start, limit = int(query.get("continue", 0)), int(query.get("limit", 10))
        metadata = {"resourceVersion": "77"}
        if start + limit < 10:
            metadata["continue"] = str(start + limit)
        items = [{"metadata": {"name": f"n{index}"}} for index in range(start, min(10, start + limit))]
        return web.json_response({"kind": "ConfigMapList", "metadata": metadata, "items": items})


@pytest.fixture
def client_of(serve: "Serve", transport_to: "TransportTo") -> Any:
    async def connect(handler: Any) -> Client:
        return Client(transport_to(await serve(handler)), field_manager="tester")

    return connect


async def test_a_list_follows_the_pages_and_sends_the_version_once(client_of: Any) -> None:
    server = Collection()
    client: Client = await client_of(server)

    listed = await client.list(
        ConfigMap,
        "default",
        labels=parse_selector("a=b"),
        fields=parse_field_selector("metadata.name!=x"),
        resource_version="70",
        page_size=4,
    )

    assert [item.metadata.name for item in listed.items] == [f"n{index}" for index in range(10)]
    assert (listed.resource_version, listed.continue_token) == ("77", "")
    selectors = {"labelSelector": "a=b", "fieldSelector": "metadata.name!=x", "limit": "4"}
    assert server.queries == [
        {**selectors, "resourceVersion": "70", "resourceVersionMatch": "NotOlderThan"},
        {**selectors, "continue": "4"},
        {**selectors, "continue": "8"},
    ]


async def test_a_list_that_expires_is_taken_anew_in_one_piece(client_of: Any) -> None:
    server = Collection(forgets=True)
    client: Client = await client_of(server)

    listed = await client.list(ConfigMap, "default", page_size=4)

    assert len(listed.items) == 10
    assert server.queries == [{"limit": "4"}, {"limit": "4", "continue": "4"}, {}]


async def test_pages_that_expire_say_so(client_of: Any) -> None:
    client: Client = await client_of(Collection(forgets=True))

    pages = client.pages(ConfigMap, "default", page_size=4)
    first = await anext(pages)

    assert len(first.items) == 4
    with pytest.raises(ExpiredError):
        await anext(pages)


async def test_a_version_that_expired_before_the_first_page_is_not_hidden(client_of: Any) -> None:
    async def handler(_: web.BaseRequest) -> web.Response:
        return web.json_response({"kind": "Status", "code": 410, "reason": "Expired"}, status=410)

    client: Client = await client_of(handler)

    with pytest.raises(ExpiredError):
        await client.list(ConfigMap, "default", resource_version="1")


async def test_an_empty_list_of_go_is_a_list(client_of: Any) -> None:
    async def handler(_: web.BaseRequest) -> web.Response:
        return web.json_response({"metadata": {"resourceVersion": "3"}, "items": None})

    client: Client = await client_of(handler)
    listed = await client.list(ConfigMap)

    assert (listed.items, listed.resource_version) == ((), "3")


@pytest.mark.parametrize(
    "document", [{}, {"metadata": {}}, {"metadata": {}, "items": {}}, {"items": []}, {"metadata": {}, "items": [1]}]
)
async def test_what_is_no_list_is_unexpected(client_of: Any, document: dict[str, Any]) -> None:
    async def handler(_: web.BaseRequest) -> web.Response:
        return web.json_response(document)

    client: Client = await client_of(handler)

    with pytest.raises(UnexpectedResponseError, match="items and metadata"):
        await client.list(ConfigMap)


def test_the_latest_state_is_asked_for_without_a_version() -> None:
    assert ListQuery().params() == {"limit": "500"}
    assert ListQuery(page_size=0, resource_version="0").params() == {
        "resourceVersion": "0",
        "resourceVersionMatch": "NotOlderThan",
    }
