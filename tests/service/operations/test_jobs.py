"""Operations as jobs."""

from attrs import evolve

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
from gpuruntime.service.operations.jobs import Job, job_of, jobs_of

SPEC = OperationSpec("stock-1", "hash", "seed_stock_units")


def an_operation(created: str, status: OperationStatus | None = None) -> Operation:
    return Operation(ObjectMeta(name="op", creation_timestamp=created), SPEC, status or OperationStatus())


def test_an_operation_that_nobody_works_on_yet_is_a_pending_job() -> None:
    job = job_of(an_operation("2026-01-02T03:04:05Z"))

    assert job == Job(
        "stock-1", "seed_stock_units", "pending", created_at="2026-01-02T03:04:05Z", updated_at="2026-01-02T03:04:05Z"
    )


def test_a_job_tells_how_far_it_is_and_what_it_makes() -> None:
    status = OperationStatus(
        state=RUNNING,
        progress=OperationProgress(37, 100),
        result=OperationResult("GPUUnit", "stock-g1-0a1b2c3d4e", "runtime-stock"),
        error=OperationFailure("refused", "quota"),
        updated_at="2026-01-02T03:05:00Z",
    )

    job = job_of(an_operation("2026-01-02T03:04:05Z", status))

    assert (job.status, job.done, job.total, job.error) == ("running", 37, 100, "quota")
    assert (job.object_name, job.object_namespace) == ("stock-g1-0a1b2c3d4e", "runtime-stock")
    assert job.updated_at == "2026-01-02T03:05:00Z"


def test_the_newest_job_comes_first() -> None:
    old = an_operation("2026-01-01T00:00:00Z")
    new = evolve(an_operation("2026-01-02T00:00:00Z"), spec=evolve(SPEC, operation_id="stock-2"))

    assert [job.operation_id for job in jobs_of([old, new])] == ["stock-2", "stock-1"]
