"""The permissions in the manifests are exactly those that each process uses."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import evolve

from gpuruntime.api import reasons
from gpuruntime.api.envelope import Reservation
from gpuruntime.api.gpufunction import GPUFunctionSpec
from gpuruntime.api.gpustorage import GPUStorageSpec
from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.api.names import CLAIM_ID, SOURCE_POOL
from gpuruntime.api.namespaces import INSTANCE_NAMESPACE, STOCK_NAMESPACE, SYSTEM_NAMESPACE
from gpuruntime.api.operation import operation_name
from gpuruntime.api.projection import project
from gpuruntime.api.stockpool import StockPoolSpec
from gpuruntime.api.unit_template import UnitPort, UnitTemplate
from gpuruntime.desired.provenance import CLAIMED_BY, CLAIMED_FOR, claim_of
from gpuruntime.desired.units.names import child_name
from gpuruntime.meta import ObjectKey, freeze
from gpuruntime.service.errors import InsufficientCapacityError, NameTakenError
from gpuruntime.service.functions import FUNCTIONS, CreateFunction
from gpuruntime.service.objects.delete import DeleteObject
from gpuruntime.service.objects.update import UpdateObject
from gpuruntime.service.pools import POOLS, CreatePool
from gpuruntime.service.reads.reader import is_at_least
from gpuruntime.service.stock.delete import STOCK_UNITS
from gpuruntime.service.stock.seed import SeedStock
from gpuruntime.service.storage.requests import STORAGES, CreateStorage
from gpuruntime.service.units.create import CreateUnit
from gpuruntime.service.units.delete import DeleteUnit
from gpuruntime.service.units.lifecycle import ACTIVE_UNITS
from gpuruntime.testing import AuditLog, LocalCluster
from gpuruntime.testing.permissions import usage
from tests.product.installed_scenes import Installed, Shop, installed, shop
from tests.product.storage_scenes import keep_a_storage
from tests.product.worker_scenes import keep_workers
from tests.product_scenes import UNITS, create_unit, eventually

NGINX = GPUUnitSpec("g1.1", image="nginx")
SMALL = Reservation("g1.1", cpu="10m", memory="16Mi")
PORTS = (UnitPort("http", 8080), UnitPort("metrics", 9090))
DEPLOYMENTS = "/apis/apps/v1/namespaces/{}/deployments"
# Only with this plugin does the API server check the permissions on finalizers.
PLUGINS = {"enable-admission-plugins": "NodeRestriction,OwnerReferencesPermissionEnforcement"}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Installed]:
    with LocalCluster(tmp_path / "cluster", audit=True, apiserver_flags=PLUGINS) as cluster:
        yield installed(cluster.access, tmp_path)


async def test_each_process_uses_every_permission_of_its_manifests_and_needs_no_other(
    world: Installed,
) -> None:
    assert world.access.audit_log is not None
    audit = AuditLog(world.access.audit_log)

    with audit.recording() as seen:
        async with shop(world) as open_shop:
            await sell_and_take_back(open_shop)
            await mend(open_shop)
            await refuse(open_shop)
            await keep_a_pool(open_shop)
            await keep_data(open_shop)
            await request_a_function(open_shop)
            await keep_workers(open_shop)
            await end_void_claims(open_shop)
            await keep_a_storage(open_shop)
            permissions = {world.controller: open_shop.controller.permissions, world.api: open_shop.server.permissions}

    for account, granted in permissions.items():
        found = usage(granted, seen.requests, user=account.username)
        assert found.is_exact, f"{account.name}: {found}"


async def sell_and_take_back(shop: Shop) -> None:
    """Seed, claim, update ports, remove them, delete the unit; delete a spare stock unit."""
    service = shop.server.service
    await service.stock.seed("seed", SeedStock(SMALL, 2))
    spare = (await shop.stock(2))[1].metadata.name
    await service.units.create("order", CreateUnit("sold", evolve(NGINX, template=UnitTemplate(ports=PORTS))))
    await shop.ready("sold")
    for generation, ports in ((2, [{"name": "http", "port": 8080}]), (3, [])):
        change = freeze({"spec": {"template": {"ports": ports}}})
        await service.of(ACTIVE_UNITS).update(f"ports-{generation}", UpdateObject("sold", INSTANCE_NAMESPACE, change))
        await shop.ready("sold", generation=generation)
    await shop.observer.services.until(lambda store: not store.list(INSTANCE_NAMESPACE).items)
    await service.units.delete("return", DeleteUnit("sold"))
    await shop.stock(2)
    await service.of(STOCK_UNITS).delete("scrap", DeleteObject(spare, STOCK_NAMESPACE))
    await shop.stock(1)


async def mend(shop: Shop) -> None:
    """Scaled Deployments of both roles are scaled back."""
    cold = CreateUnit("cold", project(SMALL, GPUUnitSpec, image="nginx"), cold_start=True)
    await shop.server.service.units.create("cold", cold)
    await shop.ready("cold")
    stock = (await shop.stock(1))[0]
    for key in (ObjectKey(INSTANCE_NAMESPACE, "cold"), stock.key):
        await scaled_back(shop, f"{DEPLOYMENTS.format(key.namespace)}/{child_name(key.name)}")


async def scaled_back(shop: Shop, path: str) -> None:
    shop.admin.merge(path, {"spec": {"replicas": 0}})
    await eventually(lambda: bool(shop.admin.get(path)["spec"]["replicas"] == 1))


async def refuse(shop: Shop) -> None:
    """An invalid spec, a Deployment of another owner under the same name, and a name that is taken."""
    create_unit(shop.admin, INSTANCE_NAMESPACE, "odd", runtimeClassName="No_Such Name")
    await shop.observer.because(ObjectKey(INSTANCE_NAMESPACE, "odd"), reasons.INVALID_SPEC)
    theirs = {"labels": {"app": "theirs"}}
    pod = {"metadata": theirs, "spec": {"containers": [{"name": "c", "image": "theirs"}]}}
    body = {
        "metadata": {"name": child_name("blocked")},
        "spec": {"selector": {"matchLabels": theirs["labels"]}, "template": pod},
    }
    shop.admin.create(DEPLOYMENTS.format(INSTANCE_NAMESPACE), body)
    create_unit(shop.admin, INSTANCE_NAMESPACE, "blocked")
    await shop.observer.because(ObjectKey(INSTANCE_NAMESPACE, "blocked"), reasons.FOREIGN_OBJECT)
    await shop.stock(1)
    await find_name_taken(shop, "taken", CreateUnit("cold", NGINX))
    await shop.stock(1)


async def find_name_taken(shop: Shop, operation_id: str, request: CreateUnit) -> None:
    """Claim stock for a unit whose name is taken. Stock whose Deployment was scaled is not ready for a moment."""
    while True:
        try:
            await shop.server.service.units.create(operation_id, request)
        except InsufficientCapacityError:
            await asyncio.sleep(0.1)  # the caller of a full shop can only ask again
        except NameTakenError:
            return
        else:
            raise AssertionError(f"{request.name} was created again")


async def keep_data(shop: Shop) -> None:
    """Create a storage by a request, grow and delete it."""
    storages = shop.server.service.of(STORAGES)
    await storages.create("data", CreateStorage("requested", GPUStorageSpec("1Gi", storage_class_name="none")))
    grown = freeze({"spec": {"size": "2Gi"}})
    await storages.update("more-data", UpdateObject("requested", INSTANCE_NAMESPACE, grown))
    await storages.delete("no-data", DeleteObject("requested", INSTANCE_NAMESPACE))


async def request_a_function(shop: Shop) -> None:
    """Create a function without workers by a request, pause and delete it."""
    functions = shop.server.service.of(FUNCTIONS)
    await functions.create("define", CreateFunction("requested", GPUFunctionSpec("g1.1", image="hello")))
    paused = freeze({"spec": {"paused": True}})
    await functions.update("pause", UpdateObject("requested", INSTANCE_NAMESPACE, paused))
    await functions.delete("undefine", DeleteObject("requested", INSTANCE_NAMESPACE))


async def keep_a_pool(shop: Shop) -> None:
    """Create, claim and refill, release, scale, delete; and a pool in a namespace for active units."""
    service, key = shop.server.service, ObjectKey(STOCK_NAMESPACE, "warm")
    await service.of(POOLS).create(
        "pool", CreatePool("warm", StockPoolSpec("g1.2", replicas=2, cpu="10m", memory="16Mi"))
    )
    await shop.pool_because(reasons.POOL_READY, "warm")
    await shop.stock(3)
    await service.units.create("pooled", CreateUnit("pooled", GPUUnitSpec("g1.2", image="nginx")))
    await shop.ready("pooled")
    await shop.stock(3)
    await find_name_taken(shop, "taken-too", CreateUnit("cold", GPUUnitSpec("g1.2", image="nginx")))
    await shop.stock(3)
    await scale(shop, "grow", key, 3)
    await shop.pool_because(reasons.POOL_READY, "warm")
    await scale(shop, "shrink", key, 0)
    await shop.pool_because(reasons.SCALED_TO_ZERO, "warm")
    await service.of(POOLS).delete("drop", DeleteObject(key.name, key.namespace))
    shop.make_pool("astray", INSTANCE_NAMESPACE, 1)
    await shop.pool_because(reasons.INVALID_SPEC, "astray", INSTANCE_NAMESPACE)
    await scale(shop, "astray-too", ObjectKey(INSTANCE_NAMESPACE, "astray"), 2)
    await service.of(POOLS).delete("drop-astray", DeleteObject("astray", INSTANCE_NAMESPACE))


async def scale(shop: Shop, operation_id: str, pool: ObjectKey, replicas: int) -> None:
    change = UpdateObject(pool.name, pool.namespace, freeze({"spec": {"replicas": replicas}}))
    await shop.server.service.of(POOLS).update(operation_id, change)


async def end_void_claims(shop: Shop) -> None:
    """Claims of an ended Operation for units that were never created: the stock unit is released, or deleted like its
    pool. The claim may name a unit in any namespace: people edit annotations.
    """
    stock = (await shop.stock(1))[0]
    claimed = await claim(shop, stock, {CLAIMED_FOR: f"{INSTANCE_NAMESPACE}/never"})

    def is_free(unit: GPUUnit) -> bool:
        return claim_of(unit.metadata) is None and is_at_least(unit.metadata.resource_version, claimed)

    await shop.observer.until(stock.key, "the claim is gone", is_free)
    await claim(shop, stock, {CLAIMED_FOR: f"{STOCK_NAMESPACE}/never", SOURCE_POOL: "gone"})
    await shop.stock(0)


async def claim(shop: Shop, stock: GPUUnit, marks: dict[str, str]) -> str:
    """Claim a stock unit by a patch, for the Operation that seeded it; returns the version with the claim."""
    seed = await shop.server.service.operations.find("seed")
    assert seed is not None
    assert seed.metadata.name == operation_name("seed")
    assert seed.metadata.namespace == SYSTEM_NAMESPACE
    path = f"{UNITS.format(STOCK_NAMESPACE)}/{stock.metadata.name}"
    made = {CLAIM_ID: seed.metadata.uid, CLAIMED_BY: seed.metadata.name, **marks}
    return str(shop.admin.merge(path, {"metadata": {"annotations": made}})["metadata"]["resourceVersion"])
