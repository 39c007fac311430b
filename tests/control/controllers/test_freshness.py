"""When a run may start after which writes: in virtual time, on a server in memory."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from attrs import define

from gpuruntime.control.controllers.freshness import Freshness, StaleCacheError
from gpuruntime.control.controllers.journal import JournalingTransport
from gpuruntime.control.controllers.reconcile_counters import ReconcileCounters
from gpuruntime.control.informers.cache import Cache
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.kube.errors import UnavailableError
from gpuruntime.kube.transport.request import Request
from gpuruntime.kube.transport.response import Response
from gpuruntime.testing.virtual_time import run_virtual
from tests.control.map_server import MapServer
from tests.control.scenes import running

MAPS = "/api/v1/namespaces/a/configmaps"


@define
class Scene:
    """A cache of config maps, one of them there from the start, and a run that can write."""

    server: MapServer
    cache: Cache
    freshness: Freshness
    counters: ReconcileCounters

    async def write(self, method: str, name: str, *more: tuple[str, str]) -> None:
        """One run of a key, with these writes of objects."""
        wire = JournalingTransport(self.server)
        with self.freshness.recording("key"):
            for verb, target in ((method, name), *more):
                path = MAPS if verb == "POST" else f"{MAPS}/{target}"
                body = b'{"metadata":{"name":"%s"}}' % target.encode() if verb != "DELETE" else None
                await wire.send(Request(verb, path, body=body))

    async def settled_at(self, key: str = "key") -> float:
        await self.freshness.settle(key, self.counters)
        return asyncio.get_running_loop().time()

    @property
    def waits_and_reads(self) -> tuple[int, int]:
        return self.counters.cache_waits, self.counters.live_reads


@asynccontextmanager
async def scene(**scope: Any) -> AsyncIterator[Scene]:
    server = MapServer()
    server.put("there")
    cache = Cache(server)
    cache.informer(ConfigMap, **scope)
    async with running(cache):
        await cache.synced()
        yield Scene(server, cache, Freshness(cache, server), ReconcileCounters())


def play(story: Callable[[Scene], Awaitable[Any]], **scope: Any) -> Any:
    async def everything() -> Any:
        async with scene(**scope) as world:
            return await story(world)

    return run_virtual(everything())


WRITES = pytest.mark.parametrize(
    "writes",
    [
        [("POST", "new")],
        [("PUT", "there")],
        [("DELETE", "there")],
        [("DELETE", "there"), ("POST", "there")],
        [("POST", "new"), ("PUT", "there")],
        [("POST", "new"), ("DELETE", "new")],
    ],
    ids=["create", "update", "delete", "replace", "two", "fleeting"],
)


@WRITES
def test_a_run_waits_until_the_cache_shows_what_the_last_one_wrote(writes: list[tuple[str, str]]) -> None:
    async def story(world: Scene) -> tuple[float, tuple[int, int], float]:
        world.server.hold()
        await world.write(*writes[0], *writes[1:])
        asyncio.get_running_loop().call_later(1.5, world.server.release)
        first = await world.settled_at()
        return first, world.waits_and_reads, await world.settled_at()

    assert play(story) == (1.5, (1, 0), 1.5)


@WRITES
def test_after_two_seconds_the_server_is_asked_and_a_cache_that_is_behind_fails_the_run(
    writes: list[tuple[str, str]],
) -> None:
    async def story(world: Scene) -> tuple[float, tuple[int, int]]:
        world.server.hold()
        await world.write(*writes[0], *writes[1:])
        world.server.asked.clear()
        for attempt in (1, 2):
            with pytest.raises(StaleCacheError, match=rf"{MAPS}/\w+"):
                await world.settled_at()
            assert [method for method, _ in world.server.asked] == ["GET"] * attempt
        world.server.release()
        return await world.settled_at(), world.waits_and_reads

    assert play(story) == (4, (3, 2))


def test_a_run_that_wrote_nothing_and_one_of_another_key_are_not_held_up() -> None:
    async def story(world: Scene) -> tuple[float, tuple[int, int]]:
        world.server.hold()
        with world.freshness.recording("idle"):
            await JournalingTransport(world.server).send(Request("GET", f"{MAPS}/there"))
        await world.write("PUT", "there")
        await world.settled_at("idle")
        return await world.settled_at("other"), world.waits_and_reads

    assert play(story) == (0, (0, 0))


def test_a_cache_that_shows_something_newer_than_was_written_will_do() -> None:
    async def story(world: Scene) -> tuple[float, tuple[int, int]]:
        await world.write("POST", "new", ("PUT", "there"))
        world.server.put("there")
        world.server.remove("new")
        await asyncio.sleep(0.1)
        return await world.settled_at(), world.waits_and_reads

    assert play(story) == (0.1, (0, 0))


def test_what_another_has_undone_before_the_cache_saw_it_is_not_waited_for_for_ever() -> None:
    async def story(world: Scene) -> float:
        world.server.hold()
        await world.write("POST", "new", ("DELETE", "there"))
        world.server.remove("new")
        world.server.put("there")
        asyncio.get_running_loop().call_later(1, world.server.release)
        return await world.settled_at()

    assert play(story) == 1


def test_a_cache_that_catches_up_while_the_server_is_asked_is_not_behind() -> None:
    async def story(world: Scene) -> tuple[float, tuple[int, int]]:
        world.server.hold()
        await world.write("PUT", "there")
        world.server.slow = 1
        asyncio.get_running_loop().call_later(2.2, world.server.put, "there")
        asyncio.get_running_loop().call_later(2.5, world.server.release)
        return await world.settled_at(), world.waits_and_reads

    assert play(story) == (3, (1, 1))


def test_after_a_lost_answer_the_cache_must_reach_a_fresh_list() -> None:
    async def story(world: Scene) -> tuple[float, list[tuple[str, str]], tuple[int, int]]:
        world.server.hold()
        world.server.lost = 1
        with pytest.raises(UnavailableError):
            await world.write("POST", "new")
        world.server.asked.clear()
        asyncio.get_running_loop().call_later(1, world.server.release)
        await world.settled_at()
        return await world.settled_at(), world.server.asked, world.waits_and_reads

    assert play(story) == (1, [("GET", "/api/v1/configmaps")], (1, 1))


def test_after_a_lost_answer_a_cache_that_stays_behind_fails_the_run_and_a_slow_list_does_not() -> None:
    async def story(world: Scene) -> list[float]:
        world.server.hold()
        world.server.lost = 1
        with pytest.raises(UnavailableError):
            await world.write("POST", "new")
        with pytest.raises(StaleCacheError, match=MAPS):
            await world.settled_at()
        failed = asyncio.get_running_loop().time()
        world.server.release()
        world.server.slow = 20
        return [failed, await world.settled_at()]

    assert play(story) == [2, 22]


def test_a_run_that_is_cancelled_in_a_write_makes_the_next_one_look() -> None:
    async def story(world: Scene) -> tuple[float, tuple[int, int]]:
        world.server.hold()
        world.server.slow = 5
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await world.write("POST", "new")
        world.server.slow = 0
        asyncio.get_running_loop().call_later(1, world.server.release)
        return await world.settled_at(), world.waits_and_reads

    assert play(story) == (2, (1, 1))


def test_a_wait_that_is_cancelled_forgets_nothing() -> None:
    async def story(world: Scene) -> float:
        world.server.hold()
        await world.write("POST", "new")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await world.settled_at()
        asyncio.get_running_loop().call_later(0.5, world.server.release)
        return await world.settled_at()

    assert play(story) == 1.5


def test_a_server_that_cannot_be_asked_fails_the_run_and_forgets_nothing() -> None:
    class Down(MapServer):
        async def send(self, request: Request) -> Response:
            raise UnavailableError(f"{request}: refused")

    async def story(world: Scene) -> None:
        world.freshness = Freshness(world.cache, Down())
        world.server.hold()
        await world.write("POST", "new")
        for _ in range(2):
            with pytest.raises(UnavailableError):
                await world.settled_at()

    play(story)


@pytest.mark.parametrize(
    ("scope", "waits"),
    [
        ({}, 1),
        ({"namespaces": ["a"]}, 1),
        ({"namespaces": ["b", "a"]}, 1),
        ({"namespaces": ["b"]}, 0),
        ({"labels": "app=x"}, 0),
        ({"labels": "!app"}, 1),
        ({"labels": "!app", "namespaces": ["b"]}, 0),
        ({"fields": "metadata.name=there"}, 1),
        ({"fields": "metadata.name!=there"}, 0),
        ({"fields": "metadata.namespace=a", "labels": "!app"}, 1),
        ({"fields": "metadata.namespace=a", "labels": "app=x"}, 0),
        ({"fields": "data.color="}, 1),
        ({"fields": "data.color=red"}, 0),
    ],
    ids=str,
)
def test_informers_that_would_show_the_write_are_waited_for_and_no_others(scope: dict[str, Any], waits: int) -> None:
    async def story(world: Scene) -> int:
        world.server.hold()
        await world.write("PUT", "there")
        asyncio.get_running_loop().call_later(1, world.server.release)
        await world.settled_at()
        return world.counters.cache_waits

    assert play(story, **scope) == waits


def test_an_informer_that_is_not_synced_yet_is_not_waited_for() -> None:
    async def story(world: Scene) -> float:
        await world.write("PUT", "there")
        await asyncio.sleep(1)
        world.server.hold()
        world.cache.informer(ConfigMap, namespaces=["a"])
        return await world.settled_at()

    assert play(story) == 1
