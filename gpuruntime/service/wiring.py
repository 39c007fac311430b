"""All use cases, wired into a manager: what a process needs to take requests."""

import asyncio
import socket
import uuid
from datetime import timedelta
from typing import Final

from attrs import field, frozen
from attrs.validators import ge

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.namespaces import SYSTEM_NAMESPACE, Namespaces
from gpuruntime.api.operation import Operation
from gpuruntime.api.stockpool import StockPool
from gpuruntime.control import (
    Controller,
    ControllerOptions,
    Informer,
    Manager,
    allow,
    allow_status,
)
from gpuruntime.kube import Client, Credentials, Transport
from gpuruntime.meta import ObjectKey
from gpuruntime.service.objects.delete import POOL_REMOVAL, STOCK_REMOVAL, Removals
from gpuruntime.service.objects.update import Changes
from gpuruntime.service.operations.controller import DEFAULT_KEEP, MOST_KEPT, OperationUpkeep
from gpuruntime.service.operations.liveness import CircuitBreaker, Liveness
from gpuruntime.service.operations.metrics import OperationCollector
from gpuruntime.service.operations.operations import Operations
from gpuruntime.service.operations.record import LeaseTiming
from gpuruntime.service.operations.worker import OperationRunner
from gpuruntime.service.pools import POOL_CHANGE, PoolCreation, StockPools
from gpuruntime.service.reads.reader import Reads
from gpuruntime.service.reads.unit_index import watch_units
from gpuruntime.service.reads.watch_log import ChangeLog
from gpuruntime.service.stock.batches import StockBatches
from gpuruntime.service.stock.capacity_names import CapacityNames
from gpuruntime.service.stock.claim import StockClaims
from gpuruntime.service.stock.claim_metrics import ClaimCollector
from gpuruntime.service.stock.ready_stock import ReadyStock
from gpuruntime.service.stock.seed import StockSeeding
from gpuruntime.service.stock.shrink import StockReduction
from gpuruntime.service.units.delete import UnitDeletion
from gpuruntime.service.units.handoff import UnitCreation, unit_trace
from gpuruntime.service.units.lifecycle import ActiveUnits
from gpuruntime.service.units.update import UNIT_CHANGE

__all__ = ["Service", "ServiceOptions", "install_service", "watch_operations"]

_TAKEN_OVER_AT_A_TIME: Final = 8
_ADMISSION: Final = "asked for by the admission plugin OwnerReferencesPermissionEnforcement when a claim is released"
_LONGEST_OPERATION: Final = 3600.0


def watch_operations(manager: Manager, namespace: str = SYSTEM_NAMESPACE) -> Informer[Operation]:
    """The informer of Operations that everybody in a process shares."""
    return manager.cache.informer(Operation, namespaces=[namespace])


@frozen
class ServiceOptions:
    """How requests are carried out.

    Args:
        namespaces: the namespaces of units, stock and Operations.
        keep: how long an ended Operation is kept, and a replay known for one.
        timing: how long others wait for a process that works on an Operation.
        identity: this process's own name among those that work on Operations.
        patience: after how many seconds without any answer of the API server a caller is told to come again.
        most_kept: how many ended Operations are kept at most; those that ended first go first.
    """

    namespaces: Namespaces = field(factory=Namespaces)
    keep: timedelta = DEFAULT_KEEP
    timing: LeaseTiming = field(factory=LeaseTiming)
    identity: str = field(factory=lambda: f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}")
    patience: float = 3.0
    most_kept: int = field(default=MOST_KEPT, validator=ge(1))


@frozen
class Service:
    """The use cases of one process."""

    operations: Operations
    stock: StockBatches
    units: ActiveUnits
    pools: StockPools
    changes: Changes
    removals: Removals
    unit_reads: Reads[GPUUnit]
    stock_reads: Reads[GPUUnit]
    pool_reads: Reads[StockPool]
    job_reads: Reads[Operation]
    log: ChangeLog[GPUUnit]
    namespaces: Namespaces
    upkeep: Controller[ObjectKey]


def install_service(manager: Manager, credentials: Credentials, options: ServiceOptions | None = None) -> Service:
    """Have a manager's process take requests and work on Operations, whether it leads or not. Before it runs.

    It has connections of its own: the writes of the manager's client stop when the process does not lead.
    """
    chosen = options or ServiceOptions()
    transport = Transport(credentials, user_agent=manager.options.name)
    signs = Liveness(transport, chosen.patience)
    client = Client(transport, field_manager=manager.options.name)
    # For what a caller waits for. Other work may take its time.
    asker = Client(CircuitBreaker(signs), field_manager=manager.options.name)
    units = watch_units(manager.cache, chosen.namespaces.units)
    records = watch_operations(manager, chosen.namespaces.system)
    pools = manager.cache.informer(StockPool, namespaces=chosen.namespaces.units)
    names = CapacityNames(chosen.namespaces.units)
    ready = ReadyStock(units, chosen.namespaces)
    claims = StockClaims(units.store, ready, transport.server_time.now)
    creation = UnitCreation(claims, units.store)
    pooling = (PoolCreation(), POOL_CHANGE, POOL_REMOVAL)
    stocking = (StockSeeding(names), STOCK_REMOVAL, StockReduction())
    runner = OperationRunner([*stocking, creation, UNIT_CHANGE, UnitDeletion(names), *pooling])
    operations = Operations(
        transport,
        records,
        runner,
        namespace=chosen.namespaces.system,
        field_manager=manager.options.name,
        identity=chosen.identity,
        timing=chosen.timing,
        signs=signs,
        traces=[unit_trace(units)],
    )
    reconciler = OperationUpkeep(
        records.store, client, transport.server_time, operations, runner, chosen.keep, chosen.most_kept
    )
    in_every_replica = ControllerOptions(
        concurrency=_TAKEN_OVER_AT_A_TIME, reconcile_timeout=_LONGEST_OPERATION, needs_leader_election=False
    )
    # An Operation that is taken over looks for stock.
    upkeep = manager.controller(records, options=in_every_replica).reads(units).reconcile_keys(reconciler.reconcile)
    manager.observability.watch_transport(transport)
    ClaimCollector(manager.observability.registry, claims.counters)
    OperationCollector(manager.observability.registry, runner.counters, records.store, transport.server_time.now)
    manager.declare(
        allow(Operation, "get", "create", "delete", "patch", namespaces=[chosen.namespaces.system]),
        allow_status(Operation, namespaces=[chosen.namespaces.system]),
        allow(GPUUnit, "get", "list", "create", "delete", "patch"),
        allow(StockPool, "get", "delete", "patch"),
        allow(StockPool, "create", namespaces=tuple(sorted(chosen.namespaces.stock))),
        allow(
            StockPool,
            "update",
            subresource="finalizers",
            namespaces=tuple(sorted(chosen.namespaces.stock)),
            rare=_ADMISSION,
        ),
    )
    active, stock = chosen.namespaces.instance, chosen.namespaces.stock
    # What is told live is told of active units. Of one namespace there is one watch, whose versions followers can come
    # back to; that of stock is not in step with it.
    log = ChangeLog(units, places=active)

    async def connect() -> None:
        async with transport:
            await asyncio.get_running_loop().create_future()

    async def work() -> None:
        # A claim that is looked for in an empty cache finds nothing.
        async with ready.following(), asyncio.TaskGroup() as tasks:
            await records.store_synced()
            tasks.create_task(operations.run(), name="operations")
            tasks.create_task(log.run(), name="log of units")

    # First to start and last to stop: whatever works on Operations needs the connections.
    manager.add(connect, "connections of operations", group="http")
    manager.add(work, "operations", group="always")
    return Service(
        operations=operations,
        stock=StockBatches(operations, chosen.namespaces),
        units=ActiveUnits(operations, claims, asker, chosen.namespaces),
        pools=StockPools(operations, asker, chosen.namespaces),
        changes=Changes(operations, asker),
        removals=Removals(operations, asker),
        unit_reads=Reads(units, asker, GPUUnit, active),
        stock_reads=Reads(units, asker, GPUUnit, stock),
        pool_reads=Reads(pools, asker, StockPool),
        job_reads=Reads(records, asker, Operation),
        log=log,
        namespaces=chosen.namespaces,
        upkeep=upkeep,
    )
