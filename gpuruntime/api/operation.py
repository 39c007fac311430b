"""Operation: the durable record of one write request, and the lock that makes it execute once."""

from hashlib import sha256
from typing import Annotated, Any, ClassVar, Final

from attrs import field, frozen

from gpuruntime.api.names import GROUP, VERSION
from gpuruntime.meta import (
    Cel,
    Column,
    Definition,
    Format,
    FrozenDict,
    Immutable,
    Length,
    Pattern,
    PreserveUnknown,
    Range,
    ResourceKind,
    Struct,
    TypedObject,
    wire,
)

__all__ = [
    "CREATE_GPU_FUNCTION",
    "CREATE_GPU_STORAGE",
    "CREATE_GPU_UNIT",
    "CREATE_STOCKPOOL",
    "DELETE_GPU_FUNCTION",
    "DELETE_GPU_STORAGE",
    "DELETE_GPU_UNIT",
    "DELETE_STOCKPOOL",
    "DELETE_STOCK_UNIT",
    "FAILED",
    "PENDING",
    "RECOVER_GPU_STORAGE",
    "REDUCE_STOCK",
    "RUNNING",
    "SEED_STOCK_UNITS",
    "SUCCEEDED",
    "UPDATE_GPU_FUNCTION",
    "UPDATE_GPU_STORAGE",
    "UPDATE_GPU_UNIT",
    "UPDATE_STOCKPOOL",
    "Operation",
    "OperationFailure",
    "OperationProgress",
    "OperationResult",
    "OperationSpec",
    "OperationStatus",
    "operation_name",
]

SEED_STOCK_UNITS: Final = "seed_stock_units"
REDUCE_STOCK: Final = "reduce_stock"
DELETE_STOCK_UNIT: Final = "delete_stock_unit"
CREATE_GPU_UNIT: Final = "create_gpu_unit"
UPDATE_GPU_UNIT: Final = "update_gpu_unit"
DELETE_GPU_UNIT: Final = "delete_gpu_unit"
CREATE_STOCKPOOL: Final = "create_stockpool"
UPDATE_STOCKPOOL: Final = "update_stockpool"
DELETE_STOCKPOOL: Final = "delete_stockpool"
CREATE_GPU_STORAGE: Final = "create_gpu_storage"
UPDATE_GPU_STORAGE: Final = "update_gpu_storage"
DELETE_GPU_STORAGE: Final = "delete_gpu_storage"
RECOVER_GPU_STORAGE: Final = "recover_gpu_storage"
CREATE_GPU_FUNCTION: Final = "create_gpu_function"
UPDATE_GPU_FUNCTION: Final = "update_gpu_function"
DELETE_GPU_FUNCTION: Final = "delete_gpu_function"

PENDING: Final = "pending"
"""Recorded, but no process has started it."""
RUNNING: Final = "running"
"""Its owner executes it, or did until the renew time."""
SUCCEEDED: Final = "succeeded"
"""The requested objects are stored; they may not be ready yet."""
FAILED: Final = "failed"
"""It failed permanently; the error explains why."""

_NAME_LENGTH: Final = 40


def operation_name(operation_id: str) -> str:
    """The name of the Operation for this operationID, the same on every replica, so that only one can create it."""
    return f"op-{sha256(operation_id.encode()).hexdigest()[:_NAME_LENGTH]}"


@frozen
class OperationSpec(Struct):
    """The request. It is immutable, except that request is removed when the operation ends."""

    RULES: ClassVar[tuple[Cel, ...]] = (
        Cel("!has(self.request) || has(oldSelf.request)", message="request cannot be set after it was removed"),
    )

    operation_id: Annotated[str, Length(minimum=1, maximum=253), Pattern("^[!-~]+$"), Immutable()] = field(
        metadata=wire("operationID")
    )
    """Idempotency key of the request, chosen by the caller. Requests with the same operationID are one operation.
    Immutable."""
    request_hash: Annotated[str, Length(minimum=1, maximum=128), Immutable()]
    """Hash of the normalised request. It distinguishes a replay from a different request with the same operationID.
    Immutable."""
    type: Annotated[str, Length(minimum=1, maximum=63), Pattern("^[a-z][a-z0-9_]*$"), Immutable()]
    """Type of the operation, such as seed_stock_units or create_gpu_unit. Immutable."""
    request: Annotated[FrozenDict[str, Any] | None, PreserveUnknown()] = field(
        default=None, metadata=wire(sensitive=True)
    )
    """The normalised request. It may contain secrets, so it is removed when the operation ends."""


@frozen
class OperationProgress(Struct):
    """Progress of an operation with several steps."""

    done: Annotated[int, Range(minimum=0)]
    """Number of completed steps."""
    total: Annotated[int, Range(minimum=0)]
    """Total number of steps."""


@frozen
class OperationResult(Struct):
    """The object that the operation created, changed or deleted."""

    kind: str
    """Kind of the object, such as GPUUnit."""
    name: str
    """Name of the object, or the common name prefix of a batch of stock units."""
    namespace: str | None = None
    """Namespace of the object."""
    uid: str | None = None
    """UID of the object. It distinguishes the object from a later one of the same name."""


@frozen
class OperationFailure(Struct):
    """The error of a failed operation, as the REST API reports it."""

    code: str
    """Error code, such as insufficient_capacity."""
    message: str
    """Human-readable error message."""


@frozen
class OperationStatus(Struct):
    """Observed state of the operation, written by the runtime API only."""

    state: Annotated[str | None, Pattern("^(pending|running|succeeded|failed)$")] = None
    """pending, running, succeeded or failed. succeeded means that the requested objects are stored; they may not be
    ready yet."""
    owner: str | None = None
    """Process that executes the operation."""
    renew_time: Annotated[str | None, Format("date-time")] = None
    """Time at which the owner last renewed its ownership. If it stops renewing, another process takes over."""
    attempts: int | None = None
    """Number of times that a process has started to execute the operation."""
    progress: OperationProgress | None = None
    """Progress of an operation with several steps."""
    result: OperationResult | None = None
    """The object of the operation, as soon as it is known."""
    error: OperationFailure | None = None
    """The error, if the operation failed."""
    updated_at: Annotated[str | None, Format("date-time")] = None
    """Time of the last change of state, progress, result or error."""
    finished_at: Annotated[str | None, Format("date-time")] = None
    """Time at which the operation succeeded or failed. The record is deleted some time after that."""


@frozen
class Operation(TypedObject):
    """Operation is the durable record of one write request to the REST API: its operationID, progress and result.

    Its name derives from the operationID, so that creating it is the lock that makes a request execute once. It is
    stored in the system namespace.
    """

    KIND = ResourceKind(GROUP, VERSION, "Operation", "operations", namespaced=True)
    DEFINITION: ClassVar[Definition] = Definition(
        categories=("gpuruntime",),
        columns=(
            Column("Operation", ".spec.operationID", description="Idempotency key of the request"),
            Column("Type", ".spec.type", description="Type of the operation"),
            Column("State", ".status.state", description="pending, running, succeeded or failed"),
            Column("Done", ".status.progress.done", type="integer", description="Completed steps"),
            Column("Total", ".status.progress.total", type="integer", description="Total number of steps"),
            Column("Age", ".metadata.creationTimestamp", type="date"),
            Column("Object", ".status.result.name", priority=1, description="Name of the operation's object"),
            Column("Owner", ".status.owner", priority=1, description="Process that executes the operation"),
            Column("Error", ".status.error.message", priority=1, description="Error message"),
        ),
    )

    spec: OperationSpec
    status: OperationStatus = field(default=OperationStatus())
