"""Operations as jobs."""

from gpuruntime.api.operation import (
    RUNNING,
    Operation,
    OperationFailure,
    OperationProgress,
    OperationResult,
    OperationSpec,
    OperationStatus,
)
from gpuruntime.meta import ObjectMeta
from gpuruntime.web.resources.jobs import JobView, job_view

SPEC = OperationSpec("stock-1", "hash", "seed_stock_units")
CREATED = "2026-01-02T03:04:05Z"


def an_operation(status: OperationStatus | None = None) -> Operation:
    return Operation(ObjectMeta(name="op", creation_timestamp=CREATED), SPEC, status or OperationStatus())


def test_an_operation_without_an_owner_is_a_pending_job() -> None:
    job = job_view(an_operation())

    assert job == JobView("stock-1", "stock-1", "seed_stock_units", "pending", created_at=CREATED, updated_at=CREATED)


def test_a_job_has_a_progress_a_result_and_an_error() -> None:
    status = OperationStatus(
        state=RUNNING,
        progress=OperationProgress(37, 100),
        result=OperationResult("GPUUnit", "stock-g1-0a1b2c3d4e", "runtime-stock"),
        error=OperationFailure("refused", "quota"),
        updated_at="2026-01-02T03:05:00Z",
    )

    job = job_view(an_operation(status))

    assert (job.status, job.progress, job.error, job.error_code) == (
        "running",
        OperationProgress(37, 100),
        "quota",
        "refused",
    )
    assert (job.object_name, job.object_namespace) == ("stock-g1-0a1b2c3d4e", "runtime-stock")
    assert job.updated_at == "2026-01-02T03:05:00Z"
