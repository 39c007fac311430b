"""Wiring of all use cases into a manager: what a process needs to accept requests."""

import asyncio
import socket
import uuid
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, TypeVar, cast

from attrs import field, frozen
from attrs.validators import ge

from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.api.operation import Operation
from gpuruntime.api.stockpool import StockPool
from gpuruntime.control import Controller, ControllerOptions, Manager, allow, allow_status
from gpuruntime.kube import Client, Credentials, Transport
from gpuruntime.meta import ObjectKey, TypedObject
from gpuruntime.service.functions import FUNCTIONS
from gpuruntime.service.objects.served_kind import ObjectService, ServedKind
from gpuruntime.service.operations.controller import DEFAULT_KEEP, MOST_KEPT, OperationReconciler
from gpuruntime.service.operations.executor import OperationExecutor
from gpuruntime.service.operations.liveness import DEFAULT_PATIENCE_SECONDS, CircuitBreaker, Liveness
from gpuruntime.service.operations.metrics import OperationCollector
from gpuruntime.service.operations.record import LeaseTiming
from gpuruntime.service.operations.submit import Operations
from gpuruntime.service.pools import POOLS
from gpuruntime.service.reads.informers import watch_operations, watch_units
from gpuruntime.service.reads.reader import Reads
from gpuruntime.service.stock.claim import ReadyStock, StockClaims
from gpuruntime.service.stock.delete import STOCK_UNITS
from gpuruntime.service.stock.metrics import ClaimCollector
from gpuruntime.service.stock.names import CapacityNames
from gpuruntime.service.stock.reduce import ReduceStockHandler
from gpuruntime.service.stock.seed import SeedStockHandler, StockBatches
from gpuruntime.service.storage.requests import STORAGES
from gpuruntime.service.units.create import CreateUnitHandler, unit_evidence
from gpuruntime.service.units.delete import DeleteUnitHandler
from gpuruntime.service.units.lifecycle import ACTIVE_UNITS, ActiveUnits

__all__ = ["SERVED_KINDS", "Service", "ServiceOptions", "install_service"]

K = TypeVar("K", bound=TypedObject)

SERVED_KINDS: Final[tuple[ServedKind[Any], ...]] = (ACTIVE_UNITS, STOCK_UNITS, POOLS, STORAGES, FUNCTIONS)
"""The kinds of the API, one row each."""

_TAKEN_OVER_AT_A_TIME: Final = 8
_ADMISSION: Final = "asked for by the admission plugin OwnerReferencesPermissionEnforcement when a claim is released"
_MOUNTED: Final = "used when a request mounts a storage"
_LONGEST_OPERATION: Final = 3600.0


@frozen
class ServiceOptions:
    """Options of the use cases.

    Args:
        namespaces: the namespaces of units, stock and Operations.
        keep: how long an ended Operation is kept, and a replay recognised.
        timing: timing of the lease on an Operation.
        identity: unique name of this process, the prefix of lease owners.
        patience: seconds without any answer of the API server after which a caller gets an error.
        most_kept: maximum number of ended Operations; those that ended first are deleted first.
    """

    namespaces: Namespaces = field(factory=Namespaces)
    keep: timedelta = DEFAULT_KEEP
    timing: LeaseTiming = field(factory=LeaseTiming)
    identity: str = field(factory=lambda: f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}")
    patience: float = DEFAULT_PATIENCE_SECONDS
    most_kept: int = field(default=MOST_KEPT, validator=ge(1))


@frozen
class Service:
    """The use cases of one process."""

    operations: Operations
    stock: StockBatches
    units: ActiveUnits
    job_reads: Reads[Operation]
    served: Mapping[ServedKind[Any], ObjectService[Any]]
    namespaces: Namespaces
    operation_controller: Controller[ObjectKey]

    def of(self, declared: ServedKind[K]) -> ObjectService[K]:
        """The use cases of a kind of the wiring."""
        return cast("ObjectService[K]", self.served[declared])

    @property
    def unit_reads(self) -> Reads[GPUUnit]:
        """Reads of active units."""
        return self.of(ACTIVE_UNITS).reads

    def close_watches(self) -> None:
        """End all watches; their callers resume elsewhere."""
        for objects in self.served.values():
            objects.log.close()


def install_service(
    manager: Manager,
    credentials: Credentials,
    options: ServiceOptions | None = None,
    kinds: Sequence[ServedKind[Any]] = SERVED_KINDS,
) -> Service:
    """Let the process of a manager accept requests and execute Operations, leader or not. Call it before `run`.

    It has its own connections: the manager's client stops writing when the process is not the leader.
    """
    chosen = options or ServiceOptions()
    transport = Transport(credentials, user_agent=manager.options.name)
    liveness = Liveness(transport, chosen.patience)
    client = Client(transport, field_manager=manager.options.name)
    # For requests that a caller waits for; background work may wait longer.
    caller_client = Client(CircuitBreaker(liveness), field_manager=manager.options.name)
    units = watch_units(manager.cache, chosen.namespaces.units)
    records = watch_operations(manager.cache, chosen.namespaces.system)
    names = CapacityNames(chosen.namespaces.units)
    ready = ReadyStock(units, chosen.namespaces)
    claims = StockClaims(units.store, ready, transport.server_time.now)
    executor = OperationExecutor(
        transport,
        [
            *(SeedStockHandler(names), ReduceStockHandler()),
            *(CreateUnitHandler(claims, units.store), DeleteUnitHandler(names)),
            *(handler for kind in kinds for handler in kind.handlers),
        ],
        field_manager=manager.options.name,
        identity=chosen.identity,
        timing=chosen.timing,
    )
    operations = Operations(
        executor,
        records,
        liveness,
        namespace=chosen.namespaces.system,
        field_manager=manager.options.name,
        evidence=[unit_evidence(units)],
    )
    reconciler = OperationReconciler(
        records.store, client, transport.server_time, executor, chosen.keep, chosen.most_kept
    )
    in_every_replica = ControllerOptions(
        concurrency=_TAKEN_OVER_AT_A_TIME, reconcile_timeout=_LONGEST_OPERATION, needs_leader_election=False
    )
    # An Operation that is taken over looks for stock.
    builder = manager.controller(records, options=in_every_replica).reads(units)
    operation_controller = builder.reconcile_keys(reconciler.reconcile)
    manager.observability.watch_transport(transport)
    ClaimCollector(manager.observability.registry, claims.counters)
    OperationCollector(manager.observability.registry, executor.counters, records.store, transport.server_time.now)
    manager.declare(
        allow(Operation, "get", "create", "delete", "patch", namespaces=[chosen.namespaces.system]),
        allow_status(Operation, namespaces=[chosen.namespaces.system]),
        allow(GPUUnit, "get", "list", "create", "delete", "patch"),
        allow(GPUStorage, "get", "patch", namespaces=tuple(sorted(chosen.namespaces.instance)), rare=_MOUNTED),
        *(permission for kind in kinds for permission in kind.permissions(chosen.namespaces)),
        allow(
            StockPool,
            "update",
            subresource="finalizers",
            namespaces=tuple(sorted(chosen.namespaces.stock)),
            rare=_ADMISSION,
        ),
    )
    served = {
        kind: ObjectService.of(kind, manager.cache, caller_client, operations, chosen.namespaces) for kind in kinds
    }

    async def connect() -> None:
        async with transport:
            await asyncio.get_running_loop().create_future()

    async def work() -> None:
        # Waits for the caches: a claim in an empty cache would find nothing.
        async with ready.subscribed(), asyncio.TaskGroup() as tasks:
            await records.store_synced()
            tasks.create_task(executor.run(), name="operations")
            for objects in served.values():
                tasks.create_task(objects.log.run(), name=f"watch log of {objects.declared.kind.KIND.plural}")

    # First to start and last to stop: the Operation controller needs the connections.
    manager.add(connect, "connections of operations", group="http")
    manager.add(work, "operations", group="always")
    return Service(
        operations=operations,
        stock=StockBatches(operations, chosen.namespaces),
        units=ActiveUnits(operations, claims, caller_client, chosen.namespaces),
        job_reads=Reads(records, caller_client, Operation),
        served=served,
        namespaces=chosen.namespaces,
        operation_controller=operation_controller,
    )
