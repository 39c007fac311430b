"""Stocks and VMs in the memory of one process, for development without a cluster: nothing is reserved, nothing runs."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from attrs import evolve, frozen

from gpuruntime.aio import LRU
from gpuruntime.api.rest.machines import VM, DeletedStocks, DeleteStocks, NewStocks, NewVM, Stock
from gpuruntime.meta import Struct, format_seconds
from gpuruntime.service.compat.machines import (
    ALLOCATED,
    AVAILABLE,
    DELETED,
    RUNNING,
    CreatedStocks,
    CreatedVM,
    check_vm,
    gone_stock,
    no_stock,
    vm_name,
)
from gpuruntime.service.errors import (
    InsufficientCapacityError,
    ObjectNotFoundError,
    OperationConflictError,
    StaleVersionError,
)
from gpuruntime.service.reads.inventory import InventorySnapshot
from gpuruntime.service.stock.names import batch_name, stock_name
from gpuruntime.service.units.delete import DeleteUnit

__all__ = ["MemoryMachines"]

T = TypeVar("T")
_REMEMBERED: Final = 10_000


@frozen
class _Done:
    request: Struct
    result: Any


class MemoryMachines:
    """Stores stocks and VMs for as long as the process runs. See `Machines`.

    Guarantees:
        As with a cluster, a request is executed once, a stock is never allocated twice, and the oldest is allocated
        first. The last 10,000 operationIDs are remembered.
    """

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._now = now
        self._stocks: dict[str, Stock] = {}
        self._vms: dict[str, VM] = {}
        self._done: LRU[str, _Done] = LRU(_REMEMBERED)

    def take(self) -> InventorySnapshot:
        """The inventory of this process."""
        available = sum(stock.status == AVAILABLE for stock in self._stocks.values())
        return InventorySnapshot(active_units=len(self._vms), stock_units=available, ready_stock_units=available)

    async def create_stocks(self, operation_id: str, request: NewStocks) -> CreatedStocks:
        """See `Machines`."""
        names, is_replay = self._once(operation_id, request, lambda: self._add(operation_id, request))
        stocks = tuple(self._stocks.get(name) or gone_stock(name, request) for name in names)
        return CreatedStocks(stocks, is_ready=True, is_replay=is_replay)

    async def delete_stocks(self, operation_id: str, request: DeleteStocks) -> DeletedStocks:
        """See `Machines`."""
        return self._once(operation_id, request, lambda: self._remove(request))[0]

    def age(self) -> float:
        """See `Machines`."""
        return 0.0

    def stocks(self) -> tuple[Stock, ...]:
        """See `Machines`."""
        return tuple(self._stocks[name] for name in sorted(self._stocks))

    async def create_vm(self, operation_id: str, request: NewVM) -> CreatedVM:
        """See `Machines`."""
        check_vm(request)
        made, is_replay = self._once(operation_id, request, lambda: self._start(operation_id, request))
        current = self._vms.get(made.id, evolve(made, status=DELETED, deleted=True))
        return CreatedVM(current, is_replay)

    async def delete_vm(self, operation_id: str, vm_id: str, version: str = "") -> None:
        """See `Machines`."""
        if version and operation_id not in self._done:
            raise StaleVersionError(f"vm {vm_id} has no versions, expected {version}: leave If-Match out")
        self._once(operation_id, DeleteUnit(vm_id), lambda: self._end(vm_id))

    def vms(self) -> tuple[VM, ...]:
        """See `Machines`."""
        return tuple(self._vms[name] for name in sorted(self._vms))

    async def vm(self, vm_id: str, at_least: str = "") -> VM:  # noqa: ARG002 - there is one state only
        """See `Machines`."""
        found = self._vms.get(vm_id)
        if found is None:
            raise ObjectNotFoundError(f"vm {vm_id}: expected one, found none")
        return found

    def _once(self, operation_id: str, request: Struct, work: Callable[[], T]) -> tuple[T, bool]:
        """The result of a request, and whether it is a replay. A request that fails is not remembered."""
        known = self._done.get(operation_id)
        if known is None:
            result = work()
            self._done.put(operation_id, _Done(request, result))
            return result, False
        if known.request != request:
            raise OperationConflictError(
                f"operationID {operation_id!r} was used for another request; send the same request, or choose"
                " another operationID"
            )
        return known.result, True

    def _add(self, operation_id: str, request: NewStocks) -> tuple[str, ...]:
        batch = batch_name(request.spec_name, operation_id)
        names = tuple(stock_name(batch, ordinal) for ordinal in range(1, request.number + 1))
        for name in names:
            self._stocks[name] = Stock(
                name,
                request.spec_name,
                AVAILABLE,
                cpu=request.cpu,
                memory=request.memory,
                gpu_type=request.gpu_type,
                gpu_num=request.gpu_num,
                created_at=format_seconds(self._now()),
            )
        return names

    def _remove(self, request: DeleteStocks) -> DeletedStocks:
        free = [stock for stock in self._available() if stock.spec_name == request.spec_name]
        if len(free) < request.number:
            raise InsufficientCapacityError(
                f"spec {request.spec_name!r} has {len(free)} available stocks, expected {request.number} to delete;"
                " nothing was deleted"
            )
        for stock in free[-request.number :]:
            del self._stocks[stock.id]
        return DeletedStocks(request.spec_name, request.number, DELETED)

    def _start(self, operation_id: str, request: NewVM) -> VM:
        stock = next((stock for stock in self._available() if _matches(stock, request)), None)
        if stock is None:
            raise no_stock(request)
        vm = VM(
            vm_name(operation_id),
            stock.spec_name,
            RUNNING,
            tenant_id=request.tenant_id,
            tenant_name=request.tenant_name,
            stock_id=stock.id,
            cpu=stock.cpu,
            memory=stock.memory,
            gpu_type=stock.gpu_type,
            gpu_num=stock.gpu_num,
            created_at=format_seconds(self._now()),
        )
        self._vms[vm.id] = vm
        self._stocks[stock.id] = evolve(stock, status=ALLOCATED, vm_id=vm.id)
        return vm

    def _end(self, vm_id: str) -> None:
        vm = self._vms.pop(vm_id, None)
        if vm is None:
            raise ObjectNotFoundError(f"vm {vm_id}: expected one to delete, found none")
        stock = self._stocks[vm.stock_id or ""]
        self._stocks[stock.id] = evolve(stock, status=AVAILABLE, vm_id=None)

    def _available(self) -> list[Stock]:
        """In the order of their creation."""
        return [stock for stock in self._stocks.values() if stock.status == AVAILABLE]


def _matches(stock: Stock, request: NewVM) -> bool:
    is_meant = not request.stock_id or stock.id == request.stock_id
    return is_meant and (not request.spec_name or stock.spec_name == request.spec_name)
