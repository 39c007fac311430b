"""A cache that lags behind its server is waited for: in virtual time, on a server in memory."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gpuruntime.control.informers.cache import Cache
from gpuruntime.control.informers.consistent_read import has_reached, wait_for_consistent_read
from gpuruntime.control.informers.informer import Informer
from gpuruntime.control.informers.storage import eager
from gpuruntime.control.informers.store import Store, StoreWriter
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.kube.errors import UnavailableError
from gpuruntime.kube.transport.request import Request
from gpuruntime.meta.identity import ObjectKey
from gpuruntime.testing.virtual_time import run_virtual
from tests.control.map_server import MapServer
from tests.control.scenes import running

LISTS = ("GET", "/api/v1/configmaps")


@asynccontextmanager
async def lagging(*names: str, **scope: Any) -> AsyncIterator[tuple[MapServer, Informer[ConfigMap]]]:
    """A cache that has seen these objects, and from now on sees nothing until the server releases its watches."""
    server = MapServer()
    for name in names:
        server.put(name)
    cache = Cache(server)
    informer = cache.informer(ConfigMap, **scope)
    async with running(cache):
        await informer.synced()
        server.hold()
        server.asked.clear()
        yield server, informer


async def caught_up_after(server: MapServer, informer: Informer[ConfigMap], seconds: float) -> float:
    """When the wait returns, if the server releases its watches after some seconds."""
    asyncio.get_running_loop().call_later(seconds, server.release)
    await wait_for_consistent_read(informer, server)
    return asyncio.get_running_loop().time()


def test_a_cache_that_shows_everything_is_not_waited_for() -> None:
    async def story() -> float:
        async with lagging("x", "y") as (server, informer):
            await wait_for_consistent_read(informer, server)
            assert server.asked == [LISTS]
            return asyncio.get_running_loop().time()

    assert run_virtual(story()) == 0


@pytest.mark.parametrize("what", ["created", "updated", "deleted", "recreated", "created and deleted", "all of it"])
def test_whatever_the_server_did_unseen_is_waited_for(what: str) -> None:
    async def story() -> tuple[float, bool]:
        async with lagging("x", "y", "z") as (server, informer):
            if what in {"created", "created and deleted", "all of it"}:
                server.put("new")
            if what in {"updated", "all of it"}:
                server.put("x", data={"a": "1"})
            if what in {"deleted", "recreated", "all of it"}:
                server.remove("y")
            if what in {"recreated", "all of it"}:
                server.put("y")
            if what in {"created and deleted", "all of it"}:
                server.remove("new")
            at = await caught_up_after(server, informer, 7)
            live = {
                key: (obj["metadata"]["uid"], obj["metadata"]["resourceVersion"])
                for key, obj in server._objects.items()
            }
            return at, {key: informer.store.version_of(key) for key in informer.store} == live

    # What came and went again leaves nothing that could be missed.
    assert run_virtual(story()) == ((0 if what == "created and deleted" else 7), True)


def test_what_changes_again_after_the_server_was_asked_is_not_waited_for_for_ever() -> None:
    async def story() -> float:
        async with lagging("x") as (server, informer):
            server.put("y")
            waiting = asyncio.create_task(wait_for_consistent_read(informer, server))
            await asyncio.sleep(1)
            server.put("x")
            server.remove("y")
            server.release()
            await waiting
            return asyncio.get_running_loop().time()

    assert run_virtual(story()) == 1


def test_what_came_while_the_answer_was_under_way_is_not_taken_for_something_that_is_gone() -> None:
    async def story() -> float:
        async with lagging("x") as (server, informer):
            server.release()
            server.slow = 5
            asyncio.get_running_loop().call_later(1, server.put, "new")
            await wait_for_consistent_read(informer, server)
            return asyncio.get_running_loop().time()

    assert run_virtual(story()) == 5


def test_all_namespaces_of_an_informer_are_compared_each_by_itself() -> None:
    async def story() -> tuple[float, list[tuple[str, str]]]:
        async with lagging("x", namespaces=["a", "b"]) as (server, informer):
            server.put("y", "b")
            server.put("elsewhere", "c")
            return await caught_up_after(server, informer, 7), server.asked

    at, asked = run_virtual(story())

    assert at == 7
    assert asked == [("GET", f"/api/v1/namespaces/{namespace}/configmaps") for namespace in "ab"]


def test_a_long_list_comes_in_pages() -> None:
    async def story() -> tuple[int, float]:
        async with lagging(*(f"map-{number:04}" for number in range(1001))) as (server, informer):
            server.remove("map-0003")
            server.put("map-1000", data={"a": "1"})
            at = await caught_up_after(server, informer, 7)
            return len(server.asked), at

    assert run_virtual(story()) == (2, 7)


def test_patience_is_for_the_watch_and_not_for_the_list() -> None:
    async def story() -> float:
        async with lagging("x") as (server, informer):
            server.slow = 20
            await wait_for_consistent_read(informer, server, within=2)
            server.put("y")
            with pytest.raises(TimeoutError):
                await wait_for_consistent_read(informer, server, within=2)
            return asyncio.get_running_loop().time()

    assert run_virtual(story()) == 42


def test_a_server_that_cannot_be_asked_is_an_error() -> None:
    class Down(MapServer):
        async def send(self, request: Request) -> Any:
            raise UnavailableError(f"{request}: refused")

    async def story() -> None:
        async with lagging("x") as (_, informer):
            with pytest.raises(UnavailableError):
                await wait_for_consistent_read(informer, Down())

    run_virtual(story())


def raw(name: str, version: str, uid: str = "u") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "a", "uid": uid, "resourceVersion": version}}


@pytest.mark.parametrize(
    ("name", "version", "expected"),
    [
        ("there", "9", True),
        ("there", "10", True),
        ("there", "11", False),
        ("absent", "20", True),
        ("absent", "21", False),
        ("odd", "sixteen", True),
        ("odd", "seventeen", False),
        ("there", "ten", False),
    ],
)
def test_a_store_shows_a_version_if_it_has_it_or_a_newer_one_or_is_past_it(
    name: str, version: str, expected: bool
) -> None:
    store = Store(eager(ConfigMap))
    writer = StoreWriter(store)
    for obj in (raw("there", "10"), raw("odd", "sixteen"), raw("last", "20")):
        writer.upsert(None, obj, 10)

    assert has_reached(store, ObjectKey("a", name), version) is expected
