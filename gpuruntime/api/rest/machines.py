"""Bodies and views of /stocks and /vms, a simplified view of units."""

from typing import Annotated

from attrs import field, frozen

from gpuruntime.api.envelope import Cpu, GpuCount, GpuType, Memory, SpecName
from gpuruntime.api.rest.queries import DEFAULT_LIMIT, PageQuery
from gpuruntime.api.rest.stock_units import LARGEST_BATCH
from gpuruntime.meta import Format, Length, Pattern, Range, Struct, wire

__all__ = ["VM", "DeleteStocks", "DeletedStocks", "DeletedVM", "MachineQuery", "NewStocks", "NewVM", "Stock"]

_Tenant = Annotated[
    str | None,
    Length(maximum=63),
    Pattern(
        "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$",
        description="a label value of letters, digits, '-', '_' and '.'",
    ),
]


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
class DeletedStocks(Struct):
    """Deleted stocks."""

    spec_name: str
    """Name of the flavour."""
    number: int
    """Number of stocks."""
    status: str
    """deleted."""


@frozen
class DeletedVM(Struct):
    """A VM that was deleted."""

    vm_id: str = field(metadata=wire("vmID"))
    """Its id."""
    status: str
    """Always deleted."""


@frozen
class MachineQuery(PageQuery):
    """Which page of a list of stocks or VMs, which may be longer than others."""

    limit: Annotated[int, Range(minimum=1, maximum=1000)] = DEFAULT_LIMIT
    """Maximum number of items on a page."""
