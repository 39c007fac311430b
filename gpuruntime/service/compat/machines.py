"""Stocks and VMs: reserved capacity and what runs on it, for callers that know no Kubernetes.

A stock is a stock unit, or the capacity that an active unit took over from one. A VM is an active unit with the default
image. `cluster` maps both to units of a cluster, `memory` stores them in the process.
"""

from hashlib import sha256
from typing import Final, Protocol

from attrs import frozen

from gpuruntime.api.names import GROUP
from gpuruntime.api.rest.machines import VM, DeletedStocks, DeleteStocks, NewStocks, NewVM, Stock
from gpuruntime.meta import FrozenDict
from gpuruntime.schema import Violation
from gpuruntime.service.errors import InsufficientCapacityError, InvalidRequestError

__all__ = [
    "ALLOCATED",
    "AVAILABLE",
    "CREATING",
    "DELETED",
    "FAILED",
    "RUNNING",
    "TENANT_ID",
    "TENANT_NAME",
    "CreatedStocks",
    "CreatedVM",
    "Machines",
    "check_vm",
    "no_stock",
    "tenant_labels",
    "vm_name",
]

CREATING: Final = "creating"
AVAILABLE: Final = "available"
ALLOCATED: Final = "allocated"
RUNNING: Final = "running"
FAILED: Final = "failed"
DELETED: Final = "deleted"

TENANT_ID: Final = f"{GROUP}/tenant-id"
TENANT_NAME: Final = f"{GROUP}/tenant-name"

_HASH_LENGTH: Final = 10


@frozen
class CreatedStocks:
    """Result of a request: the stocks as they are now, whether all are available, whether it is a replay."""

    stocks: tuple[Stock, ...]
    is_ready: bool
    is_replay: bool = False


@frozen
class CreatedVM:
    """Result of a request: the VM as it is now, whether it is a replay, and the VM's resourceVersion ("": none)."""

    vm: VM
    is_replay: bool = False
    version: str = ""


class Machines(Protocol):
    """Backend of stocks and VMs. A write that is sent again with the same operationID is executed once.

    Raises, from every method:
        ServiceError: the request was refused, or is not finished.
        KubeError: the cluster is not available.
    """

    async def create_stocks(self, operation_id: str, request: NewStocks) -> CreatedStocks:
        """Reserve capacity, and wait up to 20 seconds until it is available."""

    async def delete_stocks(self, operation_id: str, request: DeleteStocks) -> DeletedStocks:
        """Delete unused stocks: the whole number, or none."""

    def age(self) -> float:
        """Seconds since the cache last heard from the cluster."""

    def stocks(self) -> tuple[Stock, ...]:
        """All stocks, by id."""

    async def create_vm(self, operation_id: str, request: NewVM) -> CreatedVM:
        """Create a VM on reserved capacity."""

    async def delete_vm(self, operation_id: str, vm_id: str, version: str = "") -> None:
        """Delete a VM, and return its stock; only if it is at this resourceVersion ("": any)."""

    def vms(self) -> tuple[VM, ...]:
        """All VMs, by id."""

    async def vm(self, vm_id: str, at_least: str = "") -> VM:
        """One VM, at this resourceVersion or newer ("": any)."""


def check_vm(request: NewVM) -> None:
    """Return if the request is valid.

    Raises:
        InvalidRequestError: it is not.
    """
    if not request.spec_name and not request.stock_id:
        raise InvalidRequestError((Violation("specName", "a flavour, or a stockID", "neither"),))


def no_stock(request: NewVM) -> InsufficientCapacityError:
    """The error when no stock is available for a VM."""
    wanted = f"stockID {request.stock_id!r}" if request.stock_id else f"spec {request.spec_name!r}"
    return InsufficientCapacityError(f"no available stock for {wanted}; create stocks first")


def gone_stock(name: str, request: NewStocks) -> Stock:
    """A stock that a request created and that is gone by now."""
    return Stock(
        name,
        request.spec_name,
        DELETED,
        request.gpu_num,
        gpu_type=request.gpu_type,
        cpu=request.cpu,
        memory=request.memory,
        deleted=True,
    )


def tenant_labels(request: NewVM) -> FrozenDict[str, str]:
    """The labels that name the tenant of a VM."""
    named = {TENANT_ID: request.tenant_id, TENANT_NAME: request.tenant_name}
    return FrozenDict({label: value for label, value in named.items() if value})


def vm_name(operation_id: str) -> str:
    """The id of the VM that a request creates: it follows from the operationID, so that it is not created twice."""
    return f"vm-{sha256(operation_id.encode()).hexdigest()[:_HASH_LENGTH]}"
