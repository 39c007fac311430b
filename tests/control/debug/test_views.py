import asyncio
from typing import Any

from gpuruntime.control.debug.views import informer_page, queue_page
from gpuruntime.control.queueing.workqueue import WorkQueue
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.testing.scripted import kube_status
from gpuruntime.testing.virtual_time import run_virtual
from tests.control.operator_scenes import Inspected, scripted_cache, serve_two_maps
from tests.control.scenes import running


def test_a_queue_shows_running_keys_first_and_the_rest_by_due_time() -> None:
    async def story() -> dict[str, Any]:
        queue = WorkQueue[str]("units")
        queue.pause("paused")
        queue.add_after("later", 60, priority=5)
        queue.add("held")
        await queue.get()
        queue.add("ready")
        await asyncio.sleep(2.5)
        return queue_page(Inspected("units", queue), await queue.sample(10))

    page = run_virtual(story())

    assert (page["controller"], page["total"]) == ("units", 4)
    assert [key["key"] for key in page["keys"]] == ["held", "ready", "later", "paused"]
    held, ready, later, paused = page["keys"]
    assert (held["state"], held["running_seconds"], held["due_in_seconds"]) == ("running", 2.5, None)
    assert (ready["state"], ready["age_seconds"], ready["due_in_seconds"]) == ("ready", 2.5, -2.5)
    assert (later["state"], later["priority"], later["due_in_seconds"]) == ("waiting", 5, 57.5)
    assert (paused["state"], paused["paused"], paused["due_in_seconds"]) == ("idle", True, None)


async def test_failures_and_counters_of_a_controller_are_shown() -> None:
    queue = WorkQueue[str]("units")
    queue.add_rate_limited("poor")
    queue.add_rate_limited("poor")
    controller = Inspected("units", queue)
    controller.counters.active_workers = 1
    controller.counters.finished("error", 0.1)

    page = queue_page(controller, await queue.sample(10))

    assert page["keys"][0]["failures"] == 2
    assert (page["workers"], page["active_workers"], page["results"]["error"]) == (1, 1, 1)


async def test_an_informer_shows_its_scope_its_contents_and_its_watches() -> None:
    async with scripted_cache() as (server, cache):
        serve_two_maps(server)
        informer = cache.informer(ConfigMap, labels="app=web")
        async with running(cache):
            await cache.synced()

            page = informer_page(informer, informer.health[0].last_contact + 42)

    (odd,) = page.pop("quarantined_objects")
    assert odd["key"] == "a/odd"
    assert "$.data" in odd["error"]
    assert page == {
        "kind": "v1 ConfigMap",
        "namespaces": "",
        "selector": "app=web",
        "form": "eager",
        "synced": True,
        "objects": 2,
        "bytes": informer.store.size,
        "quarantined": 1,
        "resource_version": "9",
        "age_seconds": 42.0,
        "events": 0,
        "handler_failures": 0,
        "index_failures": 0,
        "retrying": 0,
        "failing": [],
        "watches": [{"namespace": "", "age_seconds": 42.0, "requests": 2, "relists": {"start": 1}, "last_error": None}],
    }


async def test_an_informer_of_two_namespaces_shows_what_is_wrong_with_each() -> None:
    async with scripted_cache() as (server, cache):
        serve_two_maps(server, "/api/v1/namespaces/a/configmaps")
        server.on("GET", "/api/v1/namespaces/b/configmaps").answer(kube_status(403, "Forbidden", "go away"))
        informer = cache.informer(ConfigMap, namespaces=["b", "a"])
        async with running(cache):
            await server.seen(2, path="/api/v1/namespaces/b/configmaps")

            page = informer_page(informer, asyncio.get_running_loop().time())

    first, second = page["watches"]
    assert (first["namespace"], first["last_error"]) == ("a", None)
    assert (second["namespace"], second["age_seconds"]) == ("b", None)
    assert "go away" in second["last_error"]
    assert (page["synced"], page["age_seconds"]) == (False, None)
