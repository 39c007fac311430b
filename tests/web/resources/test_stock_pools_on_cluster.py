"""Pools over HTTP, on a real control plane."""

from gpuruntime.api.names import OPERATION_ID, REQUEST_HASH
from gpuruntime.api.stockpool import StockPool
from tests.service.service_scenes import ServiceWorld
from tests.web.resource_scenes import serving


async def test_a_pool_is_created_updated_and_deleted(world: ServiceWorld) -> None:
    body = {
        "operationID": "pool-1",
        "name": "warm",
        "namespace": world.stock,
        "specName": "g1.1",
        "cpu": "10m",
        "memory": "16Mi",
        "replicas": 1,
        "template": {"command": ["sleep"], "envs": [{"name": "MODEL_ID", "value": "demo"}]},
    }
    async with world.product() as product, serving(product, world) as api:
        made = await api.call("POST", "/operator/stockpools", body)
        again = await api.call("POST", "/operator/stockpools", body)
        other = await api.call("POST", "/operator/stockpools", {**body, "replicas": 2})
        taken = await api.call("POST", "/operator/stockpools", {**body, "operationID": "pool-2"})
        nameless = await api.call("POST", "/operator/stockpools", {**body, "operationID": "pool-3", "name": None})
        stored = await world.admin.get(StockPool, "warm", world.stock)
        ready = await api.call("GET", api.stock("stockpools", "warm/wait"))
        read = await api.call("GET", api.stock("stockpools", "warm"))
        listed = await api.call("GET", f"/operator/stockpools?namespace={world.stock}&specName=g1.1")
        grown = await api.call("PUT", api.stock("stockpools", "warm"), {"replicas": 2, "template": {"args": ["9"]}})
        stale = await api.call("PUT", api.stock("stockpools", "warm"), {"replicas": 3}, If_Match=read.headers["ETag"])
        gone = await api.call("DELETE", api.stock("stockpools", "warm"))
        awaited = await api.call("GET", api.stock("stockpools", "warm/wait") + "&for=Deleted")
        token = {"X_Resource_Version": gone.headers["X-Resource-Version"]}
        after = await api.call("GET", api.stock("stockpools", "warm"), **token)
        late = await api.call("POST", "/operator/stockpools", body)

    assert (made.status, again.status) == (202, 200)
    assert (made.data["operationID"], again.data["operationID"]) == ("pool-1", "pool-1")
    assert (made.data["type"], made.data["status"], made.data["objectName"]) == (
        "create_stockpool",
        "succeeded",
        "warm",
    )
    assert (other.status, taken.status, taken.code) == (409, 409, "operation_conflict")
    assert nameless.data["objectName"].startswith("pool-g1-1-")
    assert stored.metadata.annotations[OPERATION_ID] == "pool-1"
    assert stored.metadata.annotations[REQUEST_HASH]
    assert (ready.status, ready.data["phase"]) == (200, "Ready")
    assert (read.data["available"], read.data["phase"], read.data["reason"]) == (1, "Ready", "PoolReady")
    assert [pool["name"] for pool in listed.data] == sorted([nameless.data["objectName"], "warm"])
    assert (grown.data["replicas"], grown.data["template"]["command"]) == (2, ["sleep"])
    assert grown.data["template"]["args"] == ["9"]
    assert (stale.status, gone.status, after.status, after.code) == (412, 204, 404, "stockpool_not_found")
    assert (awaited.status, awaited.data["deleted"]) == (200, True)
    assert (late.status, late.data["deleted"]) == (200, True)


async def test_an_invalid_pool_is_rejected_and_pools_in_other_namespaces_are_not_found(world: ServiceWorld) -> None:
    body = {"operationID": "bad", "name": "bad", "namespace": "default", "specName": "g1.1", "replicas": 1}
    async with world.product() as product, serving(product, world) as api:
        amount = await api.call("POST", "/operator/stockpools", {**body, "memory": "not-a-quantity"})
        place = await api.call("POST", "/operator/stockpools", body)
        product_label = {"nvidia.com/gpu.product": "B"}
        model = await api.call(
            "POST",
            "/operator/stockpools",
            {**body, "namespace": world.stock, "gpuType": "A", "nodeSelector": product_label},
        )
        elsewhere = [
            await api.call(method, "/operator/stockpools/warm?namespace=default", body)
            for method, body in (("GET", None), ("PUT", {"replicas": 2}), ("DELETE", None))
        ]
        left = await world.operations()

    assert {amount.status, place.status, model.status} == {400}
    assert {(answer.status, answer.code) for answer in elsewhere} == {(404, "stockpool_not_found")}
    assert (amount.paths, place.paths) == ({"$.memory"}, {"$.namespace"})
    assert left == ()
