"""Operation: the durable record of one write request, and the lock that makes it happen once."""

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
    "CREATE_GPU_UNIT",
    "CREATE_STOCKPOOL",
    "DELETE_GPU_UNIT",
    "DELETE_STOCKPOOL",
    "DELETE_STOCK_UNIT",
    "FAILED",
    "PENDING",
    "RUNNING",
    "SEED_STOCK_UNITS",
    "SUCCEEDED",
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
DELETE_STOCK_UNIT: Final = "delete_stock_unit"
CREATE_GPU_UNIT: Final = "create_gpu_unit"
UPDATE_GPU_UNIT: Final = "update_gpu_unit"
DELETE_GPU_UNIT: Final = "delete_gpu_unit"
CREATE_STOCKPOOL: Final = "create_stockpool"
UPDATE_STOCKPOOL: Final = "update_stockpool"
DELETE_STOCKPOOL: Final = "delete_stockpool"

PENDING: Final = "pending"
"""Recorded; nobody works on it yet."""
RUNNING: Final = "running"
"""The owner works on it, or did until its renew time."""
SUCCEEDED: Final = "succeeded"
"""What was asked for is stored. Whether it is ready is another question."""
FAILED: Final = "failed"
"""It will not happen; the error says why."""

_NAME_LENGTH: Final = 40


def operation_name(operation_id: str) -> str:
    """The name of the Operation of this operationID: the same on every replica, so that only one can create it."""
    return f"op-{sha256(operation_id.encode()).hexdigest()[:_NAME_LENGTH]}"


@frozen
class OperationSpec(Struct):
    """What was asked for. Nothing of it ever changes, but the request is dropped when the operation ends."""

    RULES: ClassVar[tuple[Cel, ...]] = (
        Cel("!has(self.request) || has(oldSelf.request)", message="a request that was dropped cannot come back"),
    )

    operation_id: Annotated[str, Length(minimum=1, maximum=253), Pattern("^[!-~]+$"), Immutable()] = field(
        metadata=wire("operationID")
    )
    """The caller's name for this request. One operationID is one operation, however often it is sent."""
    request_hash: Annotated[str, Length(minimum=1, maximum=128), Immutable()]
    """Hash of the normalised request, by which a replay is told from another request under the same operationID."""
    type: Annotated[str, Length(minimum=1, maximum=63), Pattern("^[a-z][a-z0-9_]*$"), Immutable()]
    """What is done, such as seed_stock_units or create_gpu_unit."""
    request: Annotated[FrozenDict[str, Any] | None, PreserveUnknown()] = field(
        default=None, metadata=wire(sensitive=True)
    )
    """The normalised request, while it is needed. It may hold secrets, so it is dropped when the operation ends."""


@frozen
class OperationProgress(Struct):
    """How far an operation of many steps is: done of total."""

    done: Annotated[int, Range(minimum=0)]
    """Steps that are done."""
    total: Annotated[int, Range(minimum=0)]
    """Steps in all."""


@frozen
class OperationResult(Struct):
    """The object that the operation created, changed or deleted."""

    kind: str
    """Kind of the object, such as GPUUnit."""
    name: str
    """Name of the object; of a batch of stock units, the beginning that their names have in common."""
    namespace: str | None = None
    """Namespace of the object."""
    uid: str | None = None
    """UID of the object, by which it is told from one that got the name later."""


@frozen
class OperationFailure(Struct):
    """Why an operation failed, in the words of the API."""

    code: str
    """Code of the error, such as insufficient_capacity."""
    message: str
    """The error in a sentence."""


@frozen
class OperationStatus(Struct):
    """How far the operation is, who works on it, and what came of it. Only the API's worker writes it."""

    state: Annotated[str | None, Pattern("^(pending|running|succeeded|failed)$")] = None
    """pending, running, succeeded (what was asked for is stored, which does not mean that it is ready) or failed."""
    owner: str | None = None
    """The process that works on it."""
    renew_time: Annotated[str | None, Format("date-time")] = None
    """When the owner last said that it is alive. If it stops doing so, another process takes over."""
    attempts: int | None = None
    """How many times a process began to work on it."""
    progress: OperationProgress | None = None
    """How far an operation of many steps is."""
    result: OperationResult | None = None
    """The object that the operation is about, from the moment it is known."""
    error: OperationFailure | None = None
    """Why it failed."""
    updated_at: Annotated[str | None, Format("date-time")] = None
    """When state, progress, result or error last changed."""
    finished_at: Annotated[str | None, Format("date-time")] = None
    """When it succeeded or failed. Long after that the record is deleted."""


@frozen
class Operation(TypedObject):
    """The durable record of one write request to the API: its operationID, its progress and its result.

    Its name derives from the operationID, so creating it is the lock that makes a request happen once. It lives in the
    namespace of the product.
    """

    KIND = ResourceKind(GROUP, VERSION, "Operation", "operations", namespaced=True)
    DEFINITION: ClassVar[Definition] = Definition(
        categories=("gpuruntime",),
        columns=(
            Column("Operation", ".spec.operationID", description="The caller's name for the request"),
            Column("Type", ".spec.type", description="What is done"),
            Column("State", ".status.state", description="pending, running, succeeded or failed"),
            Column("Done", ".status.progress.done", type="integer", description="Steps that are done"),
            Column("Total", ".status.progress.total", type="integer", description="Steps in all"),
            Column("Age", ".metadata.creationTimestamp", type="date"),
            Column("Object", ".status.result.name", priority=1, description="Object that was created or changed"),
            Column("Owner", ".status.owner", priority=1, description="Process that works on it"),
            Column("Error", ".status.error.message", priority=1, description="Why it failed"),
        ),
    )

    spec: OperationSpec
    status: OperationStatus = field(default=OperationStatus())
