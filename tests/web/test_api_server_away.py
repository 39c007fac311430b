"""The API while the API server is away, or hangs."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.operation import SUCCEEDED
from gpuruntime.kube.patches import MergePatch
from gpuruntime.testing.faults import DieAtOnce, FaultProxy, HoldEvents, StallRequests
from gpuruntime.web.resources.health import ClusterProbe
from tests.control.scenes import managing, proxied
from tests.product_scenes import eventually
from tests.service.service_scenes import Product, ServiceWorld, build_product
from tests.web.resource_scenes import Answered, Api, serving

PATIENCE = 1.0
SOON = 8 * (PATIENCE + 2)
"""Eight times the promised limit: the machine may be busy."""


@asynccontextmanager
async def behind_a_proxy(world: ServiceWorld, directory: Path) -> AsyncIterator[tuple[FaultProxy, Product, Api]]:
    """A product and its API, behind a proxy in front of the API server; one unit is ready."""
    async with proxied(world.access, directory) as (proxy, credentials):
        product = build_product(credentials, world.active, world.stock, patience=PATIENCE)
        async with managing(product.manager), serving(product, world) as api:
            await eventually(lambda: product.service.operations.is_accepting)
            await retried(lambda: api.create("make", "demo", "?wait=Ready"))
            yield proxy, product, api


async def retried(call: Callable[[], Awaitable[Answered]]) -> Answered:
    """The response after retries of 503 and 504: a busy machine may exceed the patience."""
    while (answer := await call()).status in {503, 504}:
        pass
    return answer


async def test_while_the_api_server_is_away_reads_come_from_the_cache_and_writes_fail(
    world: ServiceWorld, tmp_path: Path
) -> None:
    async with behind_a_proxy(world, tmp_path) as (proxy, _, api):
        with proxy.inject(DieAtOnce()):
            read = await api.call("GET", api.unit("demo"))
            listed = await api.call("GET", f"/gpu-units?namespace={world.active}")
            unknown = await api.call("GET", api.unit("missing"))
            write = await api.call("PUT", api.unit("demo"), {"image": "nginx:2"})
        mended = await retried(lambda: api.call("PUT", api.unit("demo"), {"image": "nginx:2"}))

    assert (read.status, listed.status) == (200, 200)
    assert int(read.headers["Age"]) >= 0
    assert (unknown.status, write.status, write.code) == (503, 503, "service_unavailable")
    assert int(write.headers["Retry-After"]) > 0
    assert mended.status == 200


async def test_while_the_api_server_hangs_requests_fail_fast_and_a_retried_write_is_carried_out_once(
    world: ServiceWorld, tmp_path: Path
) -> None:
    async with behind_a_proxy(world, tmp_path) as (proxy, product, api):
        with proxy.inject(StallRequests()):
            async with asyncio.timeout(SOON):
                made = await api.create("late", "late")
            async with asyncio.timeout(SOON):
                changed = await api.call("PUT", api.unit("demo"), {"image": "nginx:2"})
            async with asyncio.timeout(SOON):
                deleted = await api.call("DELETE", api.unit("demo"))
            async with asyncio.timeout(SOON):
                error = await ClusterProbe(product.manager.reach_server).error()
            read = await api.call("GET", api.unit("demo"))
        again = await retried(lambda: api.create("late", "late"))
        await world.ended(product, "late")
        jobs = await api.call("GET", "/operator/jobs")

    rejected = (made, changed, deleted)
    assert [(answer.status, answer.code) for answer in rejected] == [(503, "service_unavailable")] * 3
    assert all(int(answer.headers["Retry-After"]) > 0 for answer in rejected)
    assert ["may have been" in answer.json["error"]["message"] for answer in rejected] == [True, False, False]
    assert " within " in error
    assert (read.status, "Age" in read.headers) == (200, True)
    assert again.status in {200, 201}
    assert sorted(await world.units(world.active)) == ["demo", "late"]
    assert {job["operationID"]: job["status"] for job in jobs.data}["late"] == SUCCEEDED


async def test_a_write_is_carried_out_after_its_caller_disconnects(world: ServiceWorld, tmp_path: Path) -> None:
    order = world.creates_cold("late")
    async with behind_a_proxy(world, tmp_path) as (proxy, product, _):
        stalled = proxy.inject(StallRequests(), method="POST", resource="operations")
        calling = asyncio.create_task(product.service.units.create("order", order))
        await stalled.triggered()

        calling.cancel()
        await asyncio.wait([calling])
        stalled.lift()
        done = await world.ended(product, "order")

    assert calling.cancelled()
    assert (done.status.state, done.status.attempts) == (SUCCEEDED, 1)
    assert sorted(await world.units(world.active)) == ["demo", "late"]


async def test_while_watches_hang_a_stream_shows_no_older_version_than_requested(
    world: ServiceWorld, tmp_path: Path
) -> None:
    async with behind_a_proxy(world, tmp_path) as (proxy, _, api):
        path = f"/gpu-units/demo/watch?namespace={world.active}"
        with proxy.inject(HoldEvents(), watch=True):
            change = MergePatch({"spec": {"image": "nginx:2"}})
            changed = await world.admin.patch(GPUUnit, "demo", world.active, change)
            async with api.follow(path, at_least=changed.metadata.resource_version) as events:
                state = await events.until("synced")

    assert [(event.name, event.data.get("image")) for event in state] == [
        ("reset", None),
        ("added", "nginx:2"),
        ("synced", None),
    ]
