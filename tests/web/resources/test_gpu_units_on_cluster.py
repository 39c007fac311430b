"""Active units over HTTP, on a real control plane."""

import asyncio
from typing import Any

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import OPERATION_ID, REQUEST_HASH, SOURCE_STOCK_UID
from gpuruntime.control import Store
from gpuruntime.meta import ObjectKey
from tests.product_scenes import Observer, create_unit
from tests.service.service_scenes import Product, ServiceWorld, claimable, seeded
from tests.web.resource_scenes import serving

WARM: dict[str, Any] = {
    "coldStart": None,
    "cpu": None,
    "memory": None,
    "template": {"ports": [{"name": "http", "port": 8080}]},
}


async def test_a_unit_is_created_on_stock_replayed_read_and_deleted_and_its_stock_is_created_again(
    world: ServiceWorld, observer: Observer
) -> None:
    async with world.product() as product, serving(product, world) as api:
        names = await seeded(world, product, observer, 1)

        made = await api.create("order-1", "demo", "?wait=Ready", **WARM)
        again = await api.create("order-1", "demo", **WARM)
        changed = await api.create("order-1", "other", **WARM)
        empty = await api.create("order-2", "more", **WARM)
        # Its stages may be written after it is ready.
        settled = (await observer.ready(ObjectKey(world.active, "demo"))).metadata.resource_version
        read = await api.call("GET", api.unit("demo"), X_Resource_Version=settled)
        same = await api.call("GET", api.unit("demo"), If_None_Match=read.headers["ETag"])
        stored = (await world.units(world.active))["demo"]
        gone = await api.call("DELETE", api.unit("demo"))
        after = await api.call("GET", api.unit("demo"), X_Resource_Version=gone.headers["X-Resource-Version"])
        late = await api.create("order-1", "demo", **WARM)
        await observer.units.until(lambda store: ObjectKey(world.stock, names[0]) in store)

    assert (made.status, again.status, read.status, same.status) == (201, 200, 200, 304)
    assert made.data["phase"] == "Ready"
    assert made.data["sourceStockName"] == names[0]
    assert made.data["accessURL"] == f"http://unit-demo.{world.active}.svc.cluster.local:8080"
    assert (made.data["operationID"], made.data["lifecycle"], made.data["cpu"]) == ("order-1", "instance", "10m")
    assert made.headers["Location"] == f"/api/v1/gpu-units/demo?namespace={world.active}"
    assert again.data["uid"] == made.data["uid"]
    assert (changed.status, changed.code) == (409, "operation_conflict")
    assert (empty.status, empty.code) == (409, "insufficient_capacity")
    assert read.headers["ETag"] == f'"{read.data["resourceVersion"]}"'
    assert stored.metadata.annotations[OPERATION_ID] == "order-1"
    assert stored.metadata.annotations[REQUEST_HASH]
    assert (gone.status, after.status, after.code) == (204, 404, "gpuunit_not_found")
    assert (late.status, late.data["deleted"], late.data["name"]) == (200, True, "demo")


async def test_an_update_keeps_omitted_fields_and_is_carried_out_once(world: ServiceWorld, observer: Observer) -> None:
    template = {
        "command": ["serve"],
        "envs": [{"name": "A", "value": "1"}],
        "ports": [{"name": "http", "port": 80}, {"name": "rpc", "port": 81}],
        "readinessProbe": {"tcpSocket": {"port": "http"}},
    }
    async with world.product() as product, serving(product, world) as api:
        await api.create("make", "demo", template=template, access={"primaryPort": "http"}, labels={"a": "1", "b": "2"})
        ready = await observer.ready(ObjectKey(world.active, "demo"))
        tag = {"If_Match": f'"{ready.metadata.resource_version}"'}
        first = {
            "operationID": "change",
            "image": "nginx:2",
            "template": {"ports": [{"name": "rpc", "port": 81}], "readinessProbe": None},
            "labels": {"b": "3"},
        }

        changed = await api.call("PUT", api.unit("demo"), first, **tag)
        stale = await api.call("PUT", api.unit("demo"), {"image": "nginx:3"}, **tag)
        await api.call("PUT", api.unit("demo"), {"image": "nginx:4"})
        again = await api.call("PUT", api.unit("demo"), first, **tag)
        nothing = await api.call("PUT", api.unit("demo"), {"image": "nginx:4"})
        bare = await api.call("PUT", api.unit("demo"), {"labels": None})

    view = changed.data
    assert changed.status == 200
    assert (view["image"], view["template"]["command"], view["labels"]) == ("nginx:2", ["serve"], {"b": "3"})
    assert view["template"]["envs"] == [{"name": "A", "value": "1"}]
    assert [port["name"] for port in view["template"]["ports"]] == ["rpc"]
    assert "readinessProbe" not in view["template"]
    assert "primaryPort" not in view["access"]
    assert (stale.status, stale.code) == (412, "conflict")
    assert (again.status, again.data["image"]) == (200, "nginx:4")
    assert nothing.data["generation"] == again.data["generation"]
    assert (bare.status, bare.data.get("labels", {})) == (200, {})


async def test_all_faults_of_a_request_are_reported_at_once_and_nothing_is_stored(
    world: ServiceWorld,
) -> None:
    async with world.product() as product, serving(product, world) as api:
        template = {"ports": [{"name": "http", "port": 0}], "envs": [{"name": "1A"}]}
        shape = await api.create("wrong-1", "Demo", template=template, surprise=1)
        sense = await api.create("wrong-2", "demo", access={"primaryPort": "web"}, labels={"no label": "x"})
        warm = await api.create("wrong-3", "demo", coldStart=False, access={"primaryPort": "web"})
        place = await api.create("wrong-4", "demo", namespace=world.stock)
        kept = (await world.operations(), await world.units(world.active))
        right = await api.create("wrong-1", "demo")

    assert {shape.status, sense.status, warm.status, place.status} == {400}
    assert shape.paths == {"$.name", "$.template.ports[0].port", "$.template.envs[0].name", "$.surprise"}
    assert sense.paths == {"$.access.primaryPort", "$.labels"}
    assert warm.paths == {"$.cpu", "$.memory", "$.access.primaryPort"}
    assert place.paths == {"$.namespace"}
    assert kept == ((), {})
    assert right.status == 201


async def test_units_in_other_namespaces_are_not_created_updated_or_deleted(world: ServiceWorld) -> None:
    stray = f"stray-{world.active}"
    async with world.product() as product, serving(product, world) as api:
        create_unit(world.access.admin(), "default", stray)
        path = f"/gpu-units/{stray}?namespace=default"
        try:
            made = await api.create("order", f"{stray}-2", namespace="default")
            changed = await api.call("PUT", path, {"image": "other"})
            gone = await api.call("DELETE", path)
            left = (await world.units("default"))[stray]
        finally:
            await world.admin.delete(GPUUnit, stray, "default")

    assert (made.status, made.paths) == (400, {"$.namespace"})
    assert [(answer.status, answer.code) for answer in (changed, gone)] == [(404, "gpuunit_not_found")] * 2
    assert left.metadata.generation == 1
    assert await world.operations() == ()


async def test_pages_show_every_lasting_unit_once_while_others_are_created_and_deleted(world: ServiceWorld) -> None:
    async with world.product() as product, serving(product, world) as api:
        units = [
            await api.create(f"make-{number}", f"unit-{number}", labels={"half": "odd" if number % 2 else "even"})
            for number in range(6)
        ]
        path = f"/gpu-units?namespace={world.active}&limit=2"

        first = await api.call("GET", path, X_Resource_Version=units[-1].headers["X-Resource-Version"])
        await api.call("DELETE", api.unit("unit-1"))
        made = await api.create("make-between", "unit-0a")
        fresh = {"X_Resource_Version": made.headers["X-Resource-Version"]}
        second = await api.call("GET", f"{path}&cursor={first.json['next']}", **fresh)
        third = await api.call("GET", f"{path}&cursor={second.json['next']}", **fresh)
        odd = await api.call("GET", f"{path}&labelSelector=half%3Dodd", **fresh)
        none = await api.call("GET", f"{path}&specName=g9&phase=Ready")
        bad = await api.call("GET", f"{path}&cursor=abc&watch=0")
        worse = await api.call("GET", f"{path}&labelSelector=%3D%3D")

    names = [unit["name"] for page in (first, second, third) for unit in page.data]
    assert names == ["unit-0", "unit-1", "unit-2", "unit-3", "unit-4", "unit-5"]
    assert "next" not in third.json
    assert [unit["name"] for unit in odd.data] == ["unit-3", "unit-5"]
    assert none.json == {"data": []}
    assert (bad.status, bad.paths, worse.paths) == (400, {"?cursor"}, {"?labelSelector"})


async def test_a_wait_ends_when_the_unit_is_ready_or_deleted_or_the_timeout_is_over(world: ServiceWorld) -> None:
    async with world.product() as product, serving(product, world) as api:
        await api.create("impossible", "stuck", cpu="100000")
        await api.create("easy", "demo")

        ready = await api.call("GET", f"/gpu-units/demo/wait?for=Ready&namespace={world.active}")
        late = await api.call("GET", api.unit("stuck", "&wait=Ready&timeout=0"))
        missing = await api.call("GET", f"/gpu-units/missing/wait?namespace={world.active}")
        strange = await api.call("GET", "/gpu-units/..%2Fdemo/wait")
        stays = await api.call("GET", f"/gpu-units/stuck/wait?for=Deleted&timeout=0&namespace={world.active}")
        leaving = asyncio.create_task(api.call("GET", f"/gpu-units/stuck/wait?for=Deleted&namespace={world.active}"))
        await api.call("DELETE", api.unit("stuck"))
        left = await leaving
        long_gone = await api.call("GET", f"/gpu-units/stuck/wait?for=Deleted&namespace={world.active}")
        changed = await api.call("PUT", api.unit("demo", "&wait=Ready"), {"image": "nginx:2"})

    assert (ready.status, ready.data["phase"]) == (200, "Ready")
    assert (late.status, late.data["name"], late.data["phase"]) == (202, "stuck", "Progressing")
    assert (missing.status, missing.code, strange.status) == (404, "gpuunit_not_found", 404)
    assert (stays.status, left.status, long_gone.status) == (202, 200, 200)
    assert (left.data["deleted"], long_gone.data["deleted"]) == (True, True)
    assert (changed.status, changed.data["phase"]) == (200, "Ready")
    assert changed.data["observedGeneration"] == changed.data["generation"] == 2


async def test_a_write_succeeds_although_its_unit_is_deleted_during_the_wait(world: ServiceWorld) -> None:
    async with world.product() as product, serving(product, world) as api:
        making = asyncio.create_task(api.create("make-a", "a", "?wait=Ready", cpu="100000"))
        await until_there(product, ObjectKey(world.active, "a"))
        await api.call("DELETE", api.unit("a"))
        made = await making
        again = await api.create("make-a", "a", "?wait=Ready", cpu="100000")
        await api.create("make-b", "b", cpu="100000")
        changing = asyncio.create_task(api.call("PUT", api.unit("b", "&wait=Ready"), {"image": "nginx:2"}))
        await until_there(product, ObjectKey(world.active, "b"), "nginx:2")
        await api.call("DELETE", api.unit("b"))
        changed = await changing

    assert (made.status, again.status, changed.status) == (201, 200, 200)
    assert [answer.data["deleted"] for answer in (made, again, changed)] == [True, True, True]
    assert (made.data["uid"], made.data["operationID"]) == (again.data["uid"], "make-a")
    assert "Location" not in made.headers


async def until_there(product: Product, key: ObjectKey, image: str = "nginx") -> None:
    """Returns when the product sees a unit with this image."""

    def is_there(store: Store[GPUUnit]) -> bool:
        unit = store.get(key)
        return unit is not None and unit.spec.image == image

    await product.service.unit_reads.informer.until(is_there)


async def test_the_namespace_defaults_to_that_of_the_process(world: ServiceWorld) -> None:
    async with world.product() as product, serving(product, world) as api:
        made = await api.create("make", "demo", namespace=None, stockNamespace=None)
        seeded = await api.seed("seed", 1, namespace=None)
        found = await api.call("GET", "/gpu-units/demo")
        changed = await api.call("PUT", "/gpu-units/demo", {"image": "nginx:2"})
        missing = await api.call("GET", "/operator/stock-units/demo")

    assert (made.status, made.data["namespace"], found.data["namespace"]) == (201, world.active, world.active)
    assert (seeded.status, seeded.data["objectNamespace"], changed.status) == (202, world.stock, 200)
    assert missing.status == 404


async def test_a_write_to_one_replica_is_read_from_another(world: ServiceWorld) -> None:
    async with (
        world.product() as one,
        world.product() as other,
        serving(one, world) as here,
        serving(other, world) as there,
    ):
        seen = []
        for number in range(3):
            name = f"unit-{number}"
            await here.create(f"make-{number}", name)
            found = await there.call("GET", there.unit(name))
            changed = await here.call("PUT", here.unit(name), {"image": "nginx:2"})
            token = {"X_Resource_Version": changed.headers["X-Resource-Version"]}
            fresh = await there.call("GET", there.unit(name), **token)
            listed = await there.call("GET", f"/gpu-units?namespace={world.active}", **token)
            again = await there.create(f"make-{number}", name)
            seen.append((found.status, fresh.data["image"], listed.data[number]["image"], again.status))

    assert seen == [(200, "nginx:2", "nginx:2", 200)] * 3


async def test_a_request_that_is_sent_to_all_replicas_at_once_is_carried_out_once(
    world: ServiceWorld, observer: Observer
) -> None:
    async with (
        world.product() as one,
        world.product() as other,
        serving(one, world) as here,
        serving(other, world) as there,
    ):
        for name in await seeded(world, one, observer, 3):
            await claimable(world, other, ObjectKey(world.stock, name))

        sent = [
            (f"unit-{number}", api.create(f"make-{number}", f"unit-{number}", **WARM))
            for number in range(4)
            for api in (here, there, here)
        ]
        answers = list(zip((name for name, _ in sent), await asyncio.gather(*(call for _, call in sent)), strict=True))
        units = await world.units(world.active)

    made = {name for name, answer in answers if answer.status == 201}
    assert sorted(answer.status for _, answer in answers) == [200] * 6 + [201] * 3 + [409] * 3
    assert {answer.code for _, answer in answers if answer.status == 409} == {"insufficient_capacity"}
    assert set(units) == made
    assert len({unit.metadata.annotations[SOURCE_STOCK_UID] for unit in units.values()}) == 3
