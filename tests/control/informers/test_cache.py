"""Who shares an informer, and when it runs: in virtual time, on a server in memory."""

import asyncio
from typing import Any

import pytest
from attrs import frozen

from gpuruntime.control.informers.cache import Cache, CacheError, NotSyncedError
from gpuruntime.control.informers.changes import Change
from gpuruntime.control.informers.indexes import by_field, by_label
from gpuruntime.control.informers.storage import Eager, Transform, compact, eager, trim_metadata
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.kube.forms import dynamic, metadata_only, typed
from gpuruntime.meta.identity import ObjectKey, ResourceKind
from gpuruntime.meta.label_selectors import parse_selector
from gpuruntime.testing.virtual_time import run_virtual
from tests.control.map_server import MapServer
from tests.control.scenes import running

NODE = ResourceKind("", "v1", "Node", "nodes", namespaced=False)


def test_equal_requests_share_one_informer() -> None:
    async def story() -> None:
        cache = Cache(MapServer())
        asked: dict[str, Any] = {
            "namespaces": ["b", "a"],
            "labels": "app=x,tier in (web, db)",
            "fields": "metadata.name=n",
        }

        first = cache.informer(ConfigMap, **asked)

        assert cache.informer(typed(ConfigMap), **asked) is first
        assert cache.informer(eager(ConfigMap), **asked) is first
        assert cache.informer(ConfigMap, **{**asked, "namespaces": ("a", "b", "a")}) is first
        assert cache.informer(ConfigMap, **{**asked, "labels": "tier in (db,web),app=x"}) is first
        assert cache.informer(ConfigMap, **{**asked, "labels": parse_selector(asked["labels"])}) is first
        assert cache.informers == (first,)

    run_virtual(story())


def test_another_form_namespace_or_selector_is_another_informer() -> None:
    async def story() -> None:
        cache, kind = Cache(MapServer()), ConfigMap.KIND

        different = [
            cache.informer(ConfigMap),
            cache.informer(compact(ConfigMap)),
            cache.informer(dynamic(kind)),
            cache.informer(metadata_only(kind)),
            cache.informer(ConfigMap, namespaces=["a"]),
            cache.informer(ConfigMap, labels="app=x"),
            cache.informer(ConfigMap, fields="metadata.name=x"),
        ]

        assert cache.informers == tuple(different)
        assert len(set(map(id, different))) == len(different)

    run_virtual(story())


@frozen
class Initials:
    """A storage of a user."""

    kind: ResourceKind = ConfigMap.KIND
    accept: str = "application/json"
    list_accept: str = "application/json"
    transform: Transform = trim_metadata

    def keep(self, raw: dict[str, Any]) -> str:
        return str(raw["metadata"]["name"])

    def read(self, kept: str) -> str:
        return kept[0]


def test_a_storage_of_ones_own_is_used_as_it_is() -> None:
    async def story() -> str | None:
        server = MapServer()
        server.put("xavier")
        cache = Cache(server)
        informer = cache.informer(Initials())
        async with running(cache):
            await informer.synced()
            return informer.store.get(ObjectKey("a", "xavier"))

    assert run_virtual(story()) == "x"


def test_indexes_are_merged_until_the_cache_runs() -> None:
    async def story() -> None:
        cache = Cache(MapServer())
        first = cache.informer(ConfigMap, indexes=[by_label("app"), by_field("data.a")])

        assert cache.informer(ConfigMap) is first
        assert cache.informer(ConfigMap, indexes=[by_field("data.a"), by_field("data.b")]) is first
        assert first.index_names == {"label:app", "data.a", "data.b"}
        running = asyncio.create_task(cache.run())
        await first.synced()
        assert cache.informer(ConfigMap, indexes=[by_field("data.b")]) is first
        with pytest.raises(CacheError, match=r"v1 ConfigMap .*data\.c, label:tier"):
            cache.informer(ConfigMap, indexes=[by_label("tier"), by_label("app"), by_field("data.c")])
        with pytest.raises(RuntimeError):
            first.add_indexes([by_label("tier")])
        running.cancel()
        await asyncio.wait([running])

    run_virtual(story())


def test_what_is_invalid_is_refused_and_leaves_no_informer() -> None:
    async def story() -> None:
        cache = Cache(MapServer())

        with pytest.raises(CacheError, match="namespaces of v1 ConfigMap"):
            cache.informer(ConfigMap, namespaces=["a", ""])
        with pytest.raises(ValueError, match="cluster-scoped"):
            cache.informer(dynamic(NODE), namespaces=["a"])
        with pytest.raises(ValueError, match="position"):
            cache.informer(ConfigMap, labels="in in in")
        assert cache.informers == ()

    run_virtual(story())


def test_an_informer_that_is_asked_for_while_the_cache_runs_starts_at_once() -> None:
    async def story() -> list[ObjectKey]:
        server = MapServer()
        server.put("x")
        cache = Cache(server)
        async with running(cache):
            await asyncio.sleep(60)
            late = cache.informer(ConfigMap)
            await late.synced()
            return list(late.store)

    assert run_virtual(story()) == [ObjectKey("a", "x")]


def test_synced_waits_for_all_that_were_asked_for_and_their_subscribers() -> None:
    async def story() -> list[str]:
        server = MapServer()
        server.put("x")
        cache, names = Cache(server), list[str]()
        for what in (eager(ConfigMap), Eager(metadata_only(ConfigMap.KIND))):
            await cache.informer(what).subscribe(lambda change: names.append(change.key.name))
        async with running(cache):
            await cache.synced(within=30)
            return list(names)

    assert run_virtual(story()) == ["x", "x"]


def test_what_is_not_synced_in_time_is_named() -> None:
    async def story() -> tuple[float, str]:
        cache = Cache(MapServer(slow=5))
        cache.informer(ConfigMap)
        async with running(cache):
            with pytest.raises(NotSyncedError) as caught:
                await cache.synced(within=3)
        return asyncio.get_running_loop().time(), str(caught.value)

    time, said = run_virtual(story())
    assert time == 3
    assert "3 s: v1 ConfigMap" in said


def test_a_store_that_is_not_run_is_empty_and_a_cancelled_cache_leaves_no_task() -> None:
    async def story() -> int:
        server = MapServer()
        server.put("x")
        cache = Cache(server)
        informer = cache.informer(ConfigMap)
        assert len(informer.store) == 0
        task = asyncio.create_task(cache.run())
        await informer.synced()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        cache.informer(ConfigMap, namespaces=["a"])
        return len(asyncio.all_tasks())

    assert run_virtual(story()) == 1


@pytest.mark.parametrize("turns", range(12))
def test_a_subscriber_that_joins_while_objects_change_misses_none_and_hears_none_twice(turns: int) -> None:
    async def story() -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        server = MapServer()
        cache = Cache(server)
        informer = cache.informer(ConfigMap)

        def noting(heard: list[tuple[str, str]]) -> Any:
            def handle(change: Change[ConfigMap]) -> None:
                heard.append((change.key.name, change.resource_version))

            return handle

        async def change_the_world() -> None:
            for number in range(6):
                server.put(f"map-{number}")
                await asyncio.sleep(0)

        early, late = list[tuple[str, str]](), list[tuple[str, str]]()
        await informer.subscribe(noting(early))
        async with running(cache):
            await informer.synced()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(change_the_world())
                for _ in range(turns):
                    await asyncio.sleep(0)
                await informer.subscribe(noting(late))
            await informer.until(lambda store: len(store) == 6)
            await asyncio.sleep(1)
        return early, late

    early, late = run_virtual(story())

    assert len(early) == 6
    assert late == early
