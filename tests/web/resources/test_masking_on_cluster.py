"""Masking for callers with scope read, on a real control plane."""

import re
from typing import Any

from attrs import frozen

from gpuruntime.endpoints.auth.access_control import Access, AccessControl
from gpuruntime.endpoints.server.route import PREFIX, Caller, Route, Scope
from gpuruntime.web.app import cluster_routes
from tests.service.service_scenes import ServiceWorld
from tests.web.resource_scenes import Api, serving

TEMPLATE: dict[str, Any] = {
    "command": ["serve", "--token=hidden-in-command"],
    "args": ["--password", "hidden-in-args"],
    "envs": [{"name": "TOKEN", "value": "hidden-in-value"}, {"name": "EMPTY", "value": ""}],
    "readinessProbe": {"exec": {"command": ["check", "hidden-in-probe"]}},
}
PREPARE = {"fromImage": "tool", "command": ["fill", "--token=hidden-in-prepare"], "args": ["hidden-in-args"]}
NAMES = {
    "/gpu-units/{name}": "demo",
    "/gpu-storages/{name}": "data",
    "/serverless/functions/{name}": "hello",
    "/operator/stockpools/{name}": "warm",
    "/operator/jobs/{operationID}": "order-1",
}


@frozen
class Tokens:
    """Authenticates callers whose token is the name of their scope."""

    async def authenticate(self, token: str) -> Caller | None:
        return Caller(token, Scope[token.upper()])


def read_paths(api: Api, routes: tuple[Route, ...], stock: str) -> list[str]:
    """The paths of all read routes, with each query that changes the form of the response."""
    names = {**NAMES, "/operator/stock-units/{name}": stock}
    paths = []
    for route in routes:
        # A queue is read from NATS, which is not here: see test_masking.
        if route.method == "GET" and not route.path.endswith("/queue"):
            item = route.path.removesuffix("/wait").removesuffix("/watch")
            path = re.sub(r"\{.*\}", names.get(item, ""), route.path)
            where = api.world.stock if path.startswith("/operator") else api.world.active
            query = "" if "jobs" in path else f"?namespace={where}"
            # Some objects are never ready here.
            query += "&timeout=0" if path.endswith("/wait") else ""
            is_plain = query and route.path == item
            form = "&wait=Ready&timeout=0" if "{" in route.path else "&watch=1"
            paths += [path + query, path + query + form] if is_plain else [path + query]
    return paths


async def read_bytes(api: Api, path: str, token: str) -> bytes:
    """The body of a response; of a stream, its full state."""
    async with api.client.get(PREFIX + path, headers={"Authorization": f"Bearer {token}"}) as response:
        assert response.status in {200, 202}, await response.text()
        if response.content_type != "text/event-stream":
            return await response.read()
        found = b""
        while b"event: synced" not in found:
            found += await response.content.readany()
        return found


async def test_scope_read_sees_masks_on_every_route_and_scope_write_sees_values(world: ServiceWorld) -> None:
    access = AccessControl(Access.CREDENTIALS, Tokens())
    async with world.product() as product, serving(product, world, access) as api:
        operator = {"Authorization": "Bearer operator"}
        pool = {"specName": "g1.1", "name": "warm", "namespace": world.stock, "replicas": 1, "template": TEMPLATE}
        await api.call("POST", "/operator/stockpools", pool, **operator)
        body = {"operationID": "order-1", "name": "demo", "namespace": world.active, "specName": "g1.2", "image": "i"}
        made = await api.call("POST", "/gpu-units", {**body, "coldStart": True, "template": TEMPLATE}, **operator)
        storage = {"operationID": "order-2", "name": "data", "namespace": world.active, "size": "1Gi"}
        kept = await api.call("POST", "/gpu-storages", {**storage, "prepare": PREPARE}, **operator)
        function = {"operationID": "order-3", "name": "hello", "namespace": world.active, "specName": "g1.1"}
        asked = {**function, "image": "i", "template": TEMPLATE}
        defined = await api.call("POST", "/serverless/functions", asked, **operator)
        units = product.service.unit_reads.informer
        await units.until(lambda store: len(store.list(world.stock).items) == len(store.list(world.active).items) == 1)
        stock = units.store.list(world.stock).items[0].metadata.name
        paths = read_paths(api, cluster_routes(product.service), stock)

        reader = {path: await read_bytes(api, path, "read") for path in paths}
        writer = {path: await read_bytes(api, path, "write") for path in paths}

    assert (made.data["template"]["args"], kept.data["prepare"]) == (TEMPLATE["args"], PREPARE)
    assert defined.data["template"]["args"] == TEMPLATE["args"]
    assert len(paths) == 32
    assert [path for path in paths if b"hidden-in" in reader[path]] == []
    assert {path for path in paths if b"hidden-in-args" not in writer[path]} == {
        "/operator/jobs",
        "/operator/jobs/order-1",
    }
    of_units = [path for path in paths if not path.startswith("/gpu-storages")]
    assert [path for path in of_units if b'"TOKEN"' in reader[path]] == [
        path for path in of_units if b"hid" in writer[path]
    ]


async def test_the_mask_is_rejected_as_a_value(world: ServiceWorld) -> None:
    seen = {"args": ["***"], "envs": [{"name": "TOKEN", "value": "***"}]}
    async with world.product() as product, serving(product, world) as api:
        pool = {"specName": "g1.1", "name": "warm", "namespace": world.stock, "replicas": 0}
        await api.create("order-1", "demo", template=TEMPLATE)
        await api.call("POST", "/operator/stockpools", pool)

        answers = [
            await api.create("order-2", "other", template=seen),
            await api.call("PUT", api.unit("demo"), {"template": seen}),
            await api.call("POST", "/operator/stockpools", {**pool, "name": "other", "template": seen}),
            await api.call("PUT", api.stock("stockpools", "warm"), {"template": seen}),
        ]
        kept = await api.call("PUT", api.unit("demo"), {"template": {"args": ["**"]}})

    assert [answer.status for answer in answers] == [400] * 4
    assert [answer.paths for answer in answers] == [{"$.template.args[0]", "$.template.envs[0].value"}] * 4
    assert "scope write" in answers[0].json["error"]["message"]
    assert (kept.status, kept.data["template"]["args"]) == (200, ["**"])
