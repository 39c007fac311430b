"""The whole product: units, pools, claims and requests, with exactly the permissions that it declares."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from attrs import field, frozen

from gpuruntime.api.envelope import Reservation
from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.api.operation import Operation, operation_name
from gpuruntime.api.projection import project
from gpuruntime.api.stockpool import StockPool, StockPoolSpec
from gpuruntime.control import Cache, Controller, Informer, Manager, ManagerOptions, Store, wait_for
from gpuruntime.control.informers.consistent_read import has_reached
from gpuruntime.control.informers.waiting import WaitCondition
from gpuruntime.control.permissions.offline_credentials import OFFLINE_CREDENTIALS
from gpuruntime.desired.pools.units import is_ready_stock
from gpuruntime.desired.rendering import Rendering
from gpuruntime.kube import Client, connect
from gpuruntime.kube.auth.credentials import Credentials
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.kube.transport.transport import Transport
from gpuruntime.meta import ObjectKey, ObjectMeta, Struct, find_condition
from gpuruntime.reconcilers.claims import ClaimOptions, install_claims
from gpuruntime.reconcilers.gpuunit.reconciler import GPUUnitOptions, install_gpuunit
from gpuruntime.reconcilers.stockpool.reconciler import StockPoolOptions, install_stockpool
from gpuruntime.reconcilers.storage_locks import StorageLockOptions, install_storage_locks
from gpuruntime.reconcilers.unit_turns import UnitTurns
from gpuruntime.service.operations.record import LeaseTiming, has_ended, new_operation, request_hash
from gpuruntime.service.reads.informers import watch_operations
from gpuruntime.service.stock.seed import SeedStock
from gpuruntime.service.units.create import CreateUnit
from gpuruntime.service.wiring import Service, ServiceOptions, install_service
from gpuruntime.testing import AuditLog, ClusterAccess
from gpuruntime.testing.cluster.accounts import Account
from gpuruntime.testing.permissions import granted_account
from tests.control.scenes import managing, running
from tests.product_scenes import Observer, eventually

__all__ = [
    "NGINX",
    "QUICK",
    "SMALL",
    "Product",
    "ServiceWorld",
    "build_product",
    "claimable",
    "looking_at",
    "seeded",
    "service_world",
]

T = TypeVar("T")
QUICK = LeaseTiming(lease=6.0, renew=5.0, period=1.0)
SMALL = Reservation("g1.1", cpu="10m", memory="16Mi")
NGINX = GPUUnitSpec("g1.1", image="nginx")


@frozen
class Product:
    """The product in one process."""

    manager: Manager
    service: Service
    units: Controller[ObjectKey]
    pools: Controller[ObjectKey]
    claims: Controller[ObjectKey]
    locks: Controller[ObjectKey]

    @property
    def controllers(self) -> tuple[Controller[ObjectKey], ...]:
        return (self.units, self.pools, self.claims, self.locks, self.service.operation_controller)


def build_product(
    credentials: Credentials,
    active: str,
    stock: str,
    *,
    name: str = "gpuruntime",
    timing: LeaseTiming = QUICK,
    keep: timedelta = timedelta(days=1),
    patience: float = 15.0,
    refused_seconds: float = 60.0,
    min_ready_seconds: int = 0,
) -> Product:
    """The product in two namespaces; Operations are in that of active units."""
    namespaces = Namespaces((active,), (stock,), active)
    manager = Manager(credentials, ManagerOptions(name, grace=10.0))
    turns = UnitTurns()
    units = install_gpuunit(
        manager, GPUUnitOptions(Rendering(namespaces=namespaces, min_ready_seconds=min_ready_seconds), turns=turns)
    )
    pools = install_stockpool(manager, StockPoolOptions(namespaces, refused_seconds=refused_seconds))
    claims = install_claims(manager, ClaimOptions(namespaces, timing, refused_seconds=refused_seconds))
    locks = install_storage_locks(manager, StorageLockOptions(namespaces, timing, turns))
    options = ServiceOptions(namespaces, keep, timing, patience=patience)
    return Product(manager, install_service(manager, credentials, options), units, pools, claims, locks)


@frozen
class ServiceWorld:
    """The namespaces of a test, and the product's account, with exactly the permissions that it declares."""

    access: ClusterAccess
    account: Account
    audit: AuditLog
    active: str
    stock: str
    admin: Client = field(repr=False)

    @asynccontextmanager
    async def product(self, **options: Any) -> AsyncIterator[Product]:
        """The product, running for the length of the block."""
        built = build_product(from_kubeconfig(self.account.kubeconfig), self.active, self.stock, **options)
        async with managing(built.manager):
            await eventually(lambda: built.service.operations.is_accepting)
            yield built

    async def writes_of_a_second_pass(self) -> list[tuple[str, str]]:
        """The writes of a product that starts now and reconciles everything twice."""
        with self.audit.recording() as seen:
            async with self.product() as product:
                for _ in range(2):
                    for controller in product.controllers:
                        await reconcile_everything(controller)
        writes = seen.writes(user=self.account.username)
        return [(write.verb, f"{write.resource}/{write.subresource}".rstrip("/")) for write in writes]

    def seeds(self, replicas: int) -> SeedStock:
        return SeedStock(SMALL, replicas, self.stock)

    def creates(self, name: str, spec: GPUUnitSpec = NGINX, **request: Any) -> CreateUnit:
        return CreateUnit(name, spec, **{"namespace": self.active, "stock_namespace": self.stock, **request})

    def creates_cold(self, name: str) -> CreateUnit:
        """A request for a small unit without stock."""
        return self.creates(name, project(SMALL, GPUUnitSpec, image="nginx"), cold_start=True)

    async def make_pool(self, replicas: int, name: str = "warm", **spec: Any) -> StockPool:
        """A pool of small units, created by a user."""
        wanted = StockPoolSpec(**{"spec_name": "g1.1", "cpu": "10m", "memory": "16Mi", **spec}, replicas=replicas)
        return await self.admin.create(StockPool(ObjectMeta(name=name, namespace=self.stock), wanted))

    async def pool_because(
        self, reason: str, words: str = "", name: str = "warm", namespace: str = "", within: float = 60.0
    ) -> StockPool:
        """The pool, once its newest generation has this reason, and a message that contains these words."""
        async with looking_at(self.access, StockPool, namespace or self.stock) as pools:

            def holds(pool: StockPool | None) -> bool:
                ready = None if pool is None else find_condition(pool.status.conditions, "Ready")
                if pool is None or ready is None or pool.status.observed_generation != pool.metadata.generation:
                    return False
                return ready.reason == reason and words in (ready.message or "")

            expected: WaitCondition[StockPool] = WaitCondition(f"is {reason} ({words})", holds)
            found = await wait_for(pools, ObjectKey(namespace or self.stock, name), expected, within=within)
        assert found is not None
        return found

    async def units(self, namespace: str) -> Mapping[str, GPUUnit]:
        """The units of a namespace by name, live."""
        return {unit.metadata.name: unit for unit in (await self.admin.list(GPUUnit, namespace)).items}

    async def abandon(self, operation_id: str, type_: str, request: Struct) -> Operation:
        """The Operation of a process that died right after it had recorded a request."""
        digest = request_hash(type_, request)
        return await self.admin.create(
            new_operation(operation_id, type_, digest, request, namespace=self.active, created_by="a dead process")
        )

    async def ended(self, product: Product, operation_id: str) -> Operation:
        """The Operation of an operationID, once it has ended."""
        informer = watch_operations(product.manager.cache, self.active)
        over: WaitCondition[Operation] = WaitCondition(
            "it has ended", lambda found: found is not None and has_ended(found)
        )
        found = await wait_for(informer, ObjectKey(self.active, operation_name(operation_id)), over, within=60)
        assert found is not None
        return found

    async def operations(self) -> tuple[Operation, ...]:
        return (await self.admin.list(Operation, self.active)).items


@asynccontextmanager
async def looking_at(access: ClusterAccess, kind: type[T], *namespaces: str) -> AsyncIterator[Informer[T]]:
    """An administrator's informer of one kind, for the length of the block."""
    async with Transport(from_kubeconfig(access.kubeconfig), user_agent="observer") as transport:
        cache = Cache(transport)
        informer = cache.informer(kind, namespaces=namespaces)
        async with running(cache):
            yield informer


async def seeded(
    world: ServiceWorld, product: Product, observer: Observer, replicas: int, name: str = "seed"
) -> list[str]:
    """Seed ready stock units by a request; returns their names in the order in which they are claimed."""
    await product.service.stock.seed(name, world.seeds(replicas))
    await observer.units.until(lambda store: len(store.list(world.stock).items) >= replicas)
    units = (await world.units(world.stock)).values()
    names = [name for _, name in sorted((unit.metadata.creation_timestamp or "", unit.metadata.name) for unit in units)]
    for unit in names:
        await observer.ready(ObjectKey(world.stock, unit))
        await claimable(world, product, ObjectKey(world.stock, unit))
    return names


async def claimable(world: ServiceWorld, product: Product, key: ObjectKey) -> None:
    """Returns when the product's cache shows that a stock unit, which may have been created again, can be claimed."""
    given_back = await world.admin.get(GPUUnit, key.name, key.namespace)

    def is_claimable(store: Store[GPUUnit]) -> bool:
        unit = store.get(key)
        is_it = unit is not None and unit.metadata.uid == given_back.metadata.uid
        return is_it and unit is not None and is_ready_stock(unit) and has_reached(store, key, version)

    version = given_back.metadata.resource_version
    await product.service.unit_reads.informer.until(is_claimable)


async def reconcile_everything(controller: Controller[ObjectKey]) -> None:
    """Enqueue all objects of a controller once more, and wait until they are reconciled."""
    informer = controller.informers[0]
    await informer.synced()
    keys, runs = list(informer.store), sum(controller.counters.results.values())
    for key in keys:
        controller.queue.add(key)

    def is_idle_again() -> bool:
        made = sum(controller.counters.results.values()) - runs
        is_idle = not controller.counters.active_workers and not controller.queue.counters.total_depth()
        return made >= len(keys) and is_idle

    await eventually(is_idle_again)


@asynccontextmanager
async def service_world(
    access: ClusterAccess, audit: AuditLog, active: str, stock: str, directory: Path
) -> AsyncIterator[ServiceWorld]:
    """A world of two namespaces."""
    planned = build_product(OFFLINE_CREDENTIALS, active, stock)
    with granted_account(access, planned.manager.permissions, namespace=active, directory=directory) as account:
        async with connect(from_kubeconfig(access.kubeconfig), field_manager="tests") as admin:
            yield ServiceWorld(access, account, audit, active, stock, admin)
