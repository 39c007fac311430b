"""Stocks and VMs of a cluster: stock units and active units under the names of the simplified API."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from attrs import frozen

from gpuruntime.api.envelope import Reservation
from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.api.namespaces import INSTANCE_NAMESPACE, STOCK_NAMESPACE
from gpuruntime.api.operation import REDUCE_STOCK, SEED_STOCK_UNITS
from gpuruntime.api.reasons import FAILED as PHASE_FAILED
from gpuruntime.api.reasons import READY_CONDITION
from gpuruntime.api.rest.machines import VM, DeletedStocks, DeleteStocks, NewStocks, NewVM, Stock
from gpuruntime.control import Store
from gpuruntime.desired.pools.units import is_ready_stock
from gpuruntime.desired.provenance import claim_of, provenance_of
from gpuruntime.desired.rendering import Rendering
from gpuruntime.meta import ObjectKey, find_condition
from gpuruntime.service.compat.machines import (
    ALLOCATED,
    AVAILABLE,
    CREATING,
    DELETED,
    FAILED,
    RUNNING,
    TENANT_ID,
    TENANT_NAME,
    CreatedStocks,
    CreatedVM,
    check_vm,
    gone_stock,
    no_stock,
    tenant_labels,
    vm_name,
)
from gpuruntime.service.errors import (
    InsufficientCapacityError,
    NotFinishedError,
    OperationFailedError,
    RefusedError,
)
from gpuruntime.service.objects.redaction import redacted
from gpuruntime.service.operations.submit import DEFAULT_WAIT_SECONDS, Operations
from gpuruntime.service.reads.reader import Reads
from gpuruntime.service.stock.names import batch_name, stock_name
from gpuruntime.service.stock.reduce import ReduceStock
from gpuruntime.service.stock.seed import SeedStock, check_seed
from gpuruntime.service.units.create import CreateUnit
from gpuruntime.service.units.delete import DeleteUnit
from gpuruntime.service.units.lifecycle import ActiveUnits

__all__ = ["ClusterMachines", "stock_of", "stocks_of", "vm_of"]

_IN_SERVICE: Final = frozenset({AVAILABLE, ALLOCATED})


def stock_of(unit: GPUUnit) -> Stock:
    """A stock unit as a stock."""
    claim = claim_of(unit.metadata)
    if claim is not None or unit.metadata.deletion_timestamp is not None:
        status = ALLOCATED
    elif is_ready_stock(unit):
        status = AVAILABLE
    else:
        status = FAILED if unit.status.phase == PHASE_FAILED else CREATING
    user = None if claim is None or claim.claimed_for is None else claim.claimed_for.name
    return _stock(unit, unit.metadata.name, status, user)


def stocks_of(units: Iterable[GPUUnit], namespace: str) -> tuple[Stock, ...]:
    """The stocks of a namespace, sorted by id: its stock units, and those that active units took over."""
    found: dict[str, Stock] = {}
    for unit in units:
        source = provenance_of(unit.metadata)
        if unit.metadata.namespace == namespace:
            # During a hand-off both units stand for the stock; the active unit counts.
            found.setdefault(unit.metadata.name, stock_of(unit))
        elif source is not None and source.stock.namespace == namespace:
            found[source.stock.name] = _stock(unit, source.stock.name, ALLOCATED, unit.metadata.name)
    return tuple(found[name] for name in sorted(found))


def _stock(unit: GPUUnit, name: str, status: str, user: str | None) -> Stock:
    spec = unit.spec
    return Stock(
        name,
        spec.spec_name,
        status,
        cpu=spec.cpu,
        memory=spec.memory,
        gpu_type=spec.gpu_type,
        gpu_num=spec.gpu,
        vm_id=user,
        message=_trouble(unit) if status in {CREATING, FAILED} else None,
        created_at=unit.metadata.creation_timestamp,
    )


def vm_of(unit: GPUUnit) -> VM:
    """An active unit as a VM."""
    spec, labels, source = unit.spec, unit.metadata.labels, provenance_of(unit.metadata)
    is_ready = _is_ready(unit)
    return VM(
        unit.metadata.name,
        spec.spec_name,
        RUNNING if is_ready else FAILED if unit.status.phase == PHASE_FAILED else CREATING,
        tenant_id=labels.get(TENANT_ID),
        tenant_name=labels.get(TENANT_NAME),
        stock_id=None if source is None else source.stock.name,
        cpu=spec.cpu,
        memory=spec.memory,
        gpu_type=spec.gpu_type,
        gpu_num=spec.gpu,
        message=None if is_ready else _trouble(unit),
        created_at=unit.metadata.creation_timestamp,
    )


def _is_ready(unit: GPUUnit) -> bool:
    ready = find_condition(unit.status.conditions, READY_CONDITION)
    is_current = unit.status.observed_generation == unit.metadata.generation
    return ready is not None and ready.status == "True" and is_current


def _trouble(unit: GPUUnit) -> str | None:
    """Why a unit is not ready, without secrets of the unit's template: every reader sees it."""
    ready = find_condition(unit.status.conditions, READY_CONDITION)
    is_current = unit.status.observed_generation == unit.metadata.generation
    return None if ready is None else redacted(ready.message, unit.spec, is_current=is_current)


@frozen
class ClusterMachines:
    """Maps stocks and VMs to units of two namespaces. See `Machines`."""

    operations: Operations
    units: ActiveUnits
    reads: Reads[GPUUnit]
    namespace: str = INSTANCE_NAMESPACE
    stock_namespace: str = STOCK_NAMESPACE
    image: str = Rendering().default_image

    async def create_stocks(self, operation_id: str, request: NewStocks) -> CreatedStocks:
        """See `Machines`."""
        reservation = Reservation(request.spec_name, request.cpu, request.memory, request.gpu_num, request.gpu_type)
        seed = SeedStock(reservation, request.number, self.stock_namespace)
        check_seed(seed, self.units.namespaces)
        deadline = asyncio.get_running_loop().time() + DEFAULT_WAIT_SECONDS
        batch = batch_name(request.spec_name, operation_id)
        names = [stock_name(batch, ordinal) for ordinal in range(1, request.number + 1)]
        try:
            performed = await self.operations.perform(operation_id, SEED_STOCK_UNITS, seed)
        except NotFinishedError:
            return CreatedStocks(self._named(names), is_ready=False)
        except OperationFailedError as error:
            raise RefusedError(str(error)) from error
        if performed.is_replay:
            return await self._replayed(names, request, deadline)
        is_ready = await self._usable(names, deadline)
        return CreatedStocks(self._named(names), is_ready)

    async def delete_stocks(self, operation_id: str, request: DeleteStocks) -> DeletedStocks:
        """See `Machines`. Stocks of a pool do not count: the pool would create others."""
        asked = ReduceStock(request.spec_name, request.number, self.stock_namespace)
        await self.operations.perform(operation_id, REDUCE_STOCK, asked)
        return DeletedStocks(request.spec_name, request.number, DELETED)

    def age(self) -> float:
        """See `Machines`."""
        return self.reads.age()

    def stocks(self) -> tuple[Stock, ...]:
        """See `Machines`."""
        self.reads.require_synced()
        return stocks_of(self._store.list().items, self.stock_namespace)

    async def create_vm(self, operation_id: str, request: NewVM) -> CreatedVM:
        """See `Machines`. When this returns, the VM is stored, but may not run yet."""
        check_vm(request)
        wanted = CreateUnit(
            vm_name(operation_id),
            GPUUnitSpec(request.spec_name or "", image=self.image),
            namespace=self.namespace,
            stock_namespace=self.stock_namespace,
            stock_name=request.stock_id or "",
            labels=tenant_labels(request),
        )
        try:
            created = await self.units.create_checked(operation_id, wanted)
        except InsufficientCapacityError as error:
            raise no_stock(request) from error
        is_replay = created.performed.is_replay
        if created.object is None:
            return CreatedVM(VM(wanted.name, wanted.spec.spec_name, DELETED, 0, deleted=True), is_replay)
        return CreatedVM(vm_of(created.object), is_replay, created.object.metadata.resource_version)

    async def delete_vm(self, operation_id: str, vm_id: str, version: str = "") -> None:
        """See `Machines`."""
        await self.units.delete(operation_id, DeleteUnit(vm_id, self.namespace), version=version)

    def vms(self) -> tuple[VM, ...]:
        """See `Machines`."""
        self.reads.require_synced()
        return tuple(map(vm_of, self._store.list(self.namespace).items))

    async def vm(self, vm_id: str, at_least: str = "") -> VM:
        """See `Machines`."""
        return vm_of((await self.reads.get(ObjectKey(self.namespace, vm_id), at_least)).object)

    @property
    def _store(self) -> Store[GPUUnit]:
        return self.reads.informer.store

    def _named(self, names: Iterable[str]) -> tuple[Stock, ...]:
        """The stocks of these names in the cache."""
        wanted = set(names)
        return tuple(stock for stock in stocks_of(self._store.list().items, self.stock_namespace) if stock.id in wanted)

    async def _replayed(self, names: Sequence[str], request: NewStocks, deadline: float) -> CreatedStocks:
        """The stocks of a replayed request. Waits for those that exist and are not available yet."""
        # Live, because a lagging cache does not show whether a missing stock is gone or new. Stock first: one that is
        # taken over between the two lists is then in the second one.
        stock = (await self.reads.client.list(GPUUnit, self.stock_namespace)).items
        active, _ = await self.reads.list_live()
        found = {one.id: one for one in stocks_of((*stock, *active), self.stock_namespace)}
        late = [name for name in names if name in found and found[name].status not in _IN_SERVICE]
        is_ready = await self._usable(late, deadline)
        found |= {one.id: one for one in self._named(late)}
        stocks = tuple(found.get(name) or gone_stock(name, request) for name in names)
        return CreatedStocks(stocks, is_ready, is_replay=True)

    async def _usable(self, names: Iterable[str], deadline: float) -> bool:
        """Whether each of these stocks was available, or already in use, at some moment before the deadline."""
        waiting = set(names) - {stock.id for stock in self._named(names) if stock.status in _IN_SERVICE}
        seen: set[str] = set()

        def is_over(store: Store[GPUUnit]) -> bool:
            for name in tuple(waiting):
                unit = store.get(ObjectKey(self.stock_namespace, name))
                if unit is not None:
                    seen.add(name)
                # One that is gone was taken over; one that was never seen is not in the cache yet.
                if name in seen and (unit is None or stock_of(unit).status in _IN_SERVICE):
                    waiting.remove(name)
            return not waiting

        try:
            async with asyncio.timeout_at(deadline):
                await self.reads.informer.until(is_over)
        except TimeoutError:
            return False
        return True
