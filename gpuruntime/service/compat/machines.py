"""Stocks and VMs: reserved capacity and what runs on it, for callers that know no Kubernetes.

A stock is a stock unit, or the capacity that an active unit took over from one. A VM is an active unit with the default
image. `cluster` maps both to units of a cluster, `memory` stores them in the process.
"""

from hashlib import sha256
from typing import Annotated, Final, Protocol

from attrs import field, frozen

from gpuruntime.api.envelope import Cpu, GpuCount, GpuType, Memory, SpecName
from gpuruntime.api.names import GROUP
from gpuruntime.meta import Format, FrozenDict, Length, Pattern, Range, Struct, wire
from gpuruntime.schema import Violation
from gpuruntime.service.errors import InsufficientCapacityError, InvalidRequestError
from gpuruntime.service.stock.names import LARGEST_BATCH

__all__ = [
    "ALLOCATED",
    "AVAILABLE",
    "CREATING",
    "DELETED",
    "FAILED",
    "RUNNING",
    "TENANT_ID",
    "TENANT_NAME",
    "VM",
    "CreatedStocks",
    "CreatedVM",
    "DeleteStocks",
    "DeletedStocks",
    "Machines",
    "NewStocks",
    "NewVM",
    "Stock",
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
_LABEL_VALUE: Final = Pattern("^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$")
_Tenant = Annotated[str | None, Length(maximum=63), _LABEL_VALUE]


@frozen
class NewStocks(Struct):
    """Reserve capacity: a number of stocks of one flavour."""

    spec_name: SpecName
    """Name of the flavour, such as g1.1."""
    number: Annotated[int, Range(minimum=1, maximum=LARGEST_BATCH)]
    """Number of stocks."""
    cpu: Cpu = None
    """CPUs of each, such as 4."""
    memory: Memory = None
    """Memory of each, such as 16Gi."""
    gpu_type: GpuType = None
    """Model of the GPUs: what label nvidia.com/gpu.product of the node must say."""
    gpu_num: GpuCount = 0
    """GPUs of each."""


@frozen
class DeleteStocks(Struct):
    """Release reserved capacity: delete a number of unused stocks of one flavour."""

    spec_name: SpecName
    """Name of the flavour."""
    number: Annotated[int, Range(minimum=1, maximum=LARGEST_BATCH)]
    """Number of stocks."""


@frozen
class NewVM(Struct):
    """Create a VM on reserved capacity: on a named stock, or on the oldest of a flavour."""

    tenant_id: _Tenant = field(default=None, metadata=wire("tenantID"))
    """ID of the tenant; a valid label value."""
    tenant_name: _Tenant = None
    """Name of the tenant; a valid label value."""
    spec_name: Annotated[str | None, Length(maximum=63)] = None
    """Name of the flavour; needed unless stockID is given."""
    stock_id: Annotated[str | None, Length(maximum=253)] = field(default=None, metadata=wire("stockID"))
    """ID of the stock to use."""


@frozen
class Stock(Struct):
    """A piece of reserved capacity."""

    id: str
    """Its name."""
    spec_name: str
    """Name of the flavour."""
    status: str
    """creating, available, allocated (used by a VM, or claimed for one), failed, or deleted (in the response to a
    replayed request).
    """
    gpu_num: int
    """GPUs."""
    gpu_type: str | None = None
    """Model of the GPUs."""
    cpu: int | str | None = None
    """CPUs."""
    memory: int | str | None = None
    """Memory."""
    vm_id: str | None = field(default=None, metadata=wire("vmID"))
    """The VM that uses it."""
    message: str | None = None
    """Why it is not available, if known."""
    created_at: Annotated[str | None, Format("date-time")] = None
    """When it was created."""
    deleted: bool = False
    """Whether it is gone."""


@frozen
class VM(Struct):
    """A VM: a container with its own GPUs."""

    id: str
    """Its name."""
    spec_name: str
    """Name of the flavour."""
    status: str
    """creating, running, failed, or deleted (in the response to a replayed request)."""
    gpu_num: int
    """GPUs."""
    gpu_type: str | None = None
    """Model of the GPUs."""
    tenant_id: str | None = field(default=None, metadata=wire("tenantID"))
    """ID of the tenant."""
    tenant_name: str | None = None
    """Name of the tenant."""
    stock_id: str | None = field(default=None, metadata=wire("stockID"))
    """The stock that it uses; it is returned when the VM is deleted."""
    cpu: int | str | None = None
    """CPUs."""
    memory: int | str | None = None
    """Memory."""
    message: str | None = None
    """Why it does not run, if known."""
    created_at: Annotated[str | None, Format("date-time")] = None
    """When it was created."""
    deleted: bool = False
    """Whether it is gone."""


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


@frozen
class DeletedStocks(Struct):
    """Deleted stocks."""

    spec_name: str
    """Name of the flavour."""
    number: int
    """Number of stocks."""
    status: str
    """deleted."""


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
