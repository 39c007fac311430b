"""Operations as people see them: jobs. That one succeeded says that what was asked for is stored, ready or not."""

from collections.abc import Iterable

from attrs import frozen

from gpuruntime.api.operation import PENDING, Operation

__all__ = ["Job", "job_of", "jobs_of"]


@frozen
class Job:
    """How far a request is. `done` of `total` steps, where there is more than one; `error` is why it failed."""

    operation_id: str
    type: str
    status: str
    object_name: str = ""
    object_namespace: str = ""
    done: int | None = None
    total: int | None = None
    error: str = ""
    created_at: str = ""
    updated_at: str = ""


def job_of(operation: Operation) -> Job:
    """The job that an Operation records."""
    status, created = operation.status, operation.metadata.creation_timestamp or ""
    result, progress = status.result, status.progress
    return Job(
        operation_id=operation.spec.operation_id,
        type=operation.spec.type,
        status=status.state or PENDING,
        object_name="" if result is None else result.name,
        object_namespace="" if result is None else result.namespace or "",
        done=None if progress is None else progress.done,
        total=None if progress is None else progress.total,
        error="" if status.error is None else status.error.message,
        created_at=created,
        updated_at=status.updated_at or created,
    )


def jobs_of(operations: Iterable[Operation]) -> tuple[Job, ...]:
    """The jobs of many Operations, the newest first."""
    jobs = [job_of(operation) for operation in operations]
    return tuple(sorted(jobs, key=lambda job: (job.created_at, job.operation_id), reverse=True))
