import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from prometheus_client import CollectorRegistry

from gpuruntime.control.controllers.reconcile import Cause
from gpuruntime.control.debug.pages import Authorize, debug_application
from gpuruntime.control.health.checks import HealthChecks
from gpuruntime.control.health.probes import build_application
from gpuruntime.control.queueing.workqueue import WorkQueue
from gpuruntime.control.serving.loopback import loopback_only
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.meta.identity import ObjectKey
from tests.control.operator_scenes import Inspected, browsing, scripted_cache

KEY = {"key": "ns/unit"}
UNIT = ObjectKey("ns", "unit")


@asynccontextmanager
async def debugging(
    *controllers: Inspected, authorize: Authorize = loopback_only
) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of the debug pages of these controllers and one informer."""
    async with scripted_cache() as (_, cache):
        cache.informer(ConfigMap)
        application = build_application(
            live=HealthChecks(),
            ready=HealthChecks(),
            registry=CollectorRegistry(),
            debug=debug_application(controllers, cache, authorize=authorize),
        )
        async with browsing(application) as client:
            yield client


async def get(client: aiohttp.ClientSession, path: str) -> Any:
    async with client.get(path) as response:
        assert response.status == 200, await response.text()
        return await response.json()


async def post(client: aiohttp.ClientSession, path: str, body: object, **headers: str) -> tuple[int, Any]:
    async with client.post(path, json=body, headers=headers) as response:
        return response.status, await response.json()


async def test_the_index_lists_the_pages() -> None:
    async with debugging() as client:
        pages = (await get(client, "/debug/"))["pages"]

        for page in pages:
            assert page in await get(client, f"/debug/{page}")


async def test_the_keys_of_every_controller_are_shown() -> None:
    units, pools = (Inspected(name, WorkQueue[Any](name)) for name in ("units", "pools"))
    units.queue.add(UNIT)
    async with debugging(units, pools) as client:
        page = await get(client, "/debug/queues")

    shown = {queue["controller"]: [key["key"] for key in queue["keys"]] for queue in page["queues"]}
    assert shown == {"units": ["ns/unit"], "pools": []}


async def test_the_first_of_many_keys_are_shown_and_any_key_can_be_requested() -> None:
    units, pools = (Inspected(name, WorkQueue[Any](name)) for name in ("units", "pools"))
    for number in range(600):
        units.queue.add_after(ObjectKey("ns", f"unit-{number}"), 1000 + number)
    async with debugging(units, pools) as client:
        (first, _) = (await get(client, "/debug/queues"))["queues"]
        (found, other) = (await get(client, "/debug/queues?key=ns/unit-599"))["queues"]
        async with client.get("/debug/queues?key=a/b/c") as refused:
            status = refused.status

    assert (first["total"], len(first["keys"]), first["keys"][-1]["key"]) == (600, 500, "ns/unit-499")
    assert ([key["key"] for key in found["keys"]], other["keys"]) == (["ns/unit-599"], [])
    assert status == 400


async def test_informers_are_shown() -> None:
    async with debugging() as client:
        (informer,) = (await get(client, "/debug/informers"))["informers"]

    assert (informer["kind"], informer["synced"], informer["age_seconds"]) == ("v1 ConfigMap", False, None)


async def test_tasks_are_shown_with_their_stacks() -> None:
    async def lingering() -> None:
        await asyncio.Event().wait()

    task = asyncio.create_task(lingering(), name="a task to find")
    async with debugging() as client:
        tasks = {task["name"]: task for task in (await get(client, "/debug/tasks"))["tasks"]}

    task.cancel()
    await asyncio.wait([task])
    assert "in lingering" in tasks["a task to find"]["stack"]
    assert tasks["a task to find"]["waits_for"] == "Future"


async def test_a_key_can_be_requeued_with_the_debug_page_as_cause() -> None:
    controller = Inspected("units", WorkQueue[Any]("units"))
    controller.queue.add_after(UNIT, 1000)
    async with debugging(controller) as client:
        status, answer = await post(client, "/debug/queues/units/requeue", KEY)

    turn = await controller.queue.get_with_causes()
    assert (status, answer["key"], answer["now"]["state"]) == (200, "ns/unit", "ready")
    assert (turn.key, turn.causes) == (UNIT, (Cause("debug page", "requeue"),))


async def test_a_key_can_be_paused_and_resumed() -> None:
    controller = Inspected("units", WorkQueue[Any]("units"))
    controller.queue.add(UNIT)
    async with debugging(controller) as client:
        _, paused = await post(client, "/debug/queues/units/pause", KEY)
        assert controller.queue.snapshot()[0].paused
        _, resumed = await post(client, "/debug/queues/units/resume", KEY)

    assert (paused["now"]["paused"], resumed["now"]["paused"]) == (True, False)
    assert await controller.queue.get() == UNIT


async def test_the_failures_of_a_key_can_be_reset() -> None:
    controller = Inspected("units", WorkQueue[Any]("units"))
    controller.queue.add_rate_limited(UNIT)
    async with debugging(controller) as client:
        _, answer = await post(client, "/debug/queues/units/forget", KEY)

    assert answer["now"]["failures"] == controller.queue.failures(UNIT) == 0


async def test_an_unknown_key_is_no_error() -> None:
    async with debugging(Inspected("units", WorkQueue[Any]("units"))) as client:
        assert (await post(client, "/debug/queues/units/forget", KEY))[1]["now"] is None


async def test_keys_are_parsed_by_the_controller() -> None:
    controller = Inspected("numbers", WorkQueue[int]("numbers"), parse_key=int)
    async with debugging(controller) as client:
        await post(client, "/debug/queues/numbers/requeue", {"key": "7"})
        refused = await post(client, "/debug/queues/numbers/requeue", {"key": "seven"})

    assert await controller.queue.get() == 7
    assert refused[0] == 400
    assert "'seven'" in refused[1]["error"]


@pytest.mark.parametrize("body", [[], {}, {"key": 7}, {"key": "a", "more": 1}, {"key": "a/b/c"}, {"key": ""}])
async def test_a_body_that_is_not_a_key_is_refused_with_the_expected_form(body: object) -> None:
    controller = Inspected("units", WorkQueue[Any]("units"))
    async with debugging(controller) as client:
        status, answer = await post(client, "/debug/queues/units/requeue", body)

    assert status == 400
    assert "namespace/name" in answer["error"]
    assert len(controller.queue) == 0


async def test_a_body_without_json_or_its_content_type_is_refused() -> None:
    async with debugging(Inspected("units", WorkQueue[Any]("units"))) as client:
        async with client.post(
            "/debug/queues/units/pause", data=b"{", headers={"Content-Type": "application/json"}
        ) as half:
            assert half.status == 400
            assert "expected a JSON object like" in (await half.json())["error"]
        async with client.post("/debug/queues/units/pause", data=b'{"key": "a"}') as untold:
            assert untold.status == 400
            assert "expected content type application/json" in (await untold.json())["error"]


async def test_an_unknown_controller_or_action_gets_a_list_of_the_known_ones() -> None:
    controllers = [Inspected(name, WorkQueue[Any](name)) for name in ("units", "pools")]
    async with debugging(*controllers) as client:
        controller = await post(client, "/debug/queues/typo/pause", KEY)
        action = await post(client, "/debug/queues/units/typo", KEY)

    assert controller == (404, {"error": "no controller 'typo': expected one of units, pools"})
    assert action == (404, {"error": "no action 'typo': expected one of requeue, pause, resume, forget"})


@pytest.mark.parametrize("path", ["/debug/", "/debug/queues", "/debug/tasks", "/debug/no-such-page"])
async def test_an_unauthorized_client_sees_nothing(path: str) -> None:
    async def deny_all(_request: web.Request) -> bool:
        return False

    async with debugging(authorize=deny_all) as client, client.get(path) as response:
        assert response.status == 403
        assert await response.json() == {"error": "this client may not use the debug pages"}


async def test_an_unauthorized_post_has_no_effect() -> None:
    async def with_token(request: web.Request) -> bool:
        return request.headers.get("Authorization") == "Bearer right"

    controller = Inspected("units", WorkQueue[Any]("units"))
    async with debugging(controller, authorize=with_token) as client:
        refused = await post(client, "/debug/queues/units/requeue", KEY)
        assert len(controller.queue) == 0
        allowed = await post(client, "/debug/queues/units/requeue", KEY, Authorization="Bearer right")

    assert (refused[0], allowed[0]) == (403, 200)
    assert len(controller.queue) == 1


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
@pytest.mark.parametrize("host", ["localhost:8080", "LOCALHOST", "127.0.0.1:8080", "[::1]:8080"])
async def test_a_loopback_peer_is_authorized_by_default(peer: str, host: str) -> None:
    request = make_mocked_request("GET", "/", headers={"Host": host}).clone(remote=peer)

    assert await loopback_only(request)


@pytest.mark.parametrize("peer", ["10.0.0.7", "2001:db8::1", "::ffff:10.0.0.7", "", "/run/socket"])
async def test_any_other_peer_is_refused_despite_its_headers(peer: str) -> None:
    headers = {"Host": "localhost", "X-Forwarded-For": "127.0.0.1"}
    request = make_mocked_request("GET", "/", headers=headers).clone(remote=peer)

    assert not await loopback_only(request)


@pytest.mark.parametrize("host", ["", "rebound.example:8080", "10.0.0.7", "localhost.example", "[::1", "a@b:c"])
async def test_a_loopback_peer_with_a_foreign_host_header_is_refused(host: str) -> None:
    request = make_mocked_request("GET", "/", headers={"Host": host}).clone(remote="127.0.0.1")

    assert not await loopback_only(request)
