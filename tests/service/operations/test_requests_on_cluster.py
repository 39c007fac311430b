"""What each request of a caller costs the API server, by its audit log."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.api.operation import Operation, operation_name
from gpuruntime.api.stockpool import StockPoolSpec
from gpuruntime.control import Manager, ManagerOptions, Store
from gpuruntime.desired.pools.units import is_ready_stock
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.meta import FrozenDict, ObjectKey
from gpuruntime.service.objects.delete import DeleteObject
from gpuruntime.service.objects.update import UpdateObject
from gpuruntime.service.operations.record import LeaseTiming, has_ended
from gpuruntime.service.pools import POOLS, CreatePool
from gpuruntime.service.units.delete import DeleteUnit
from gpuruntime.service.units.lifecycle import ACTIVE_UNITS
from gpuruntime.service.wiring import Service, ServiceOptions, install_service
from tests.control.scenes import managing
from tests.product_scenes import Observer, eventually
from tests.service.service_scenes import ServiceWorld, seeded

RECORD = "create operations"
END = ("patch operations/status", "patch operations")

Requests = tuple[str, ...]


async def test_a_request_costs_these_reads_and_writes_and_no_others(
    world: ServiceWorld, observer: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However slow the machine is, no progress is written before the end.
    monkeypatch.setattr("gpuruntime.service.operations.lease._PROGRESS_SECONDS", 100.0)
    async with world.product() as product:
        (stock,) = await seeded(world, product, observer, 1)

    async with service_alone(world) as service:
        await service.unit_reads.informer.until(lambda store: is_ready(store.get(ObjectKey(world.stock, stock))))
        seeding = await cost(world, service, lambda id_: service.stock.seed(id_, world.seeds(2)))
        claim = await cost(world, service, lambda id_: service.units.create(id_, world.creates("claimed")))
        cold = world.creates_cold("cold")
        cold_start = await cost(world, service, lambda id_: service.units.create(id_, cold))
        change = UpdateObject("claimed", world.active, FrozenDict({"spec": {"image": "nginx:2"}}))
        update = await cost(world, service, lambda id_: service.of(ACTIVE_UNITS).update(id_, change))
        gone = DeleteUnit("claimed", world.active)
        deletion = await cost(world, service, lambda id_: service.units.delete(id_, gone))
        pool = CreatePool("cool", StockPoolSpec("g3.1", replicas=0), world.stock)
        new_pool = await cost(world, service, lambda id_: service.of(POOLS).create(id_, pool))
        no_pool = DeleteObject("cool", world.stock)
        end_of_pool = await cost(world, service, lambda id_: service.of(POOLS).delete(id_, no_pool))

    found, freed = ("get gpuunits",), ("get operations", "delete gpuunits")
    assert seeding == (RECORD, "list gpuunits", "list gpuunits", "create gpuunits", "create gpuunits", *END)
    # The caller has its response after the third write.
    assert claim == (RECORD, "patch gpuunits", "create gpuunits", "delete gpuunits", *END)
    assert cold_start == (RECORD, "create gpuunits", *END)
    assert update == (*found, RECORD, *found, "patch gpuunits", *END)
    assert deletion == (*found, RECORD, *found, *freed, *found, "create gpuunits", *END)
    assert new_pool == (RECORD, "create stockpools", *END)
    assert end_of_pool == (
        *("get stockpools", RECORD, "get stockpools", "get operations", "delete stockpools"),
        *END,
    )


def is_ready(unit: GPUUnit | None) -> bool:
    return unit is not None and is_ready_stock(unit)


async def cost(world: ServiceWorld, service: Service, ask: Callable[[str], Awaitable[object]]) -> Requests:
    """The requests of the service until the Operation has ended and its own request is dropped, its last write."""
    operation_id = f"asked-{len(await world.operations())}"
    key = ObjectKey(world.active, operation_name(operation_id))

    def is_over(store: Store[Operation]) -> bool:
        found = store.get(key)
        return found is not None and has_ended(found) and found.spec.request is None

    with world.audit.recording() as seen:
        await ask(operation_id)
        await service.job_reads.informer.until(is_over)
    return tuple(
        f"{request.verb} {request.resource}/{request.subresource}".rstrip("/")
        for request in seen.requests
        if request.user == world.account.username
    )


@asynccontextmanager
async def service_alone(world: ServiceWorld) -> AsyncIterator[Service]:
    """The use cases without any reconciler of units; only the informers use the account of an administrator."""
    manager = Manager(from_kubeconfig(world.access.kubeconfig), ManagerOptions("alone", grace=10.0))
    # No renewals, however slow the machine is.
    timing = LeaseTiming(lease=120.0, renew=110.0, period=100.0)
    options = ServiceOptions(Namespaces((world.active,), (world.stock,), world.active), timing=timing)
    service = install_service(manager, from_kubeconfig(world.account.kubeconfig), options)
    counters = service.operation_controller.counters
    async with managing(manager):
        # Also that the reconciler has seen the Operation that seeded the stock, and with it the server's time.
        await eventually(lambda: service.operations.is_accepting and sum(counters.results.values()) > 0)
        yield service
