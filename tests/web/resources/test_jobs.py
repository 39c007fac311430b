"""Operations as jobs, and the pages of a long list of jobs."""

import asyncio
from typing import Any

import pytest

from gpuruntime.api.operation import (
    RUNNING,
    Operation,
    OperationFailure,
    OperationProgress,
    OperationResult,
    OperationSpec,
    OperationStatus,
)
from gpuruntime.api.rest.jobs import JobView
from gpuruntime.control import Cache
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import UnavailableError
from gpuruntime.kube.transport.request import Request
from gpuruntime.meta import ObjectMeta
from gpuruntime.service.reads.reader import Reads
from gpuruntime.testing.virtual_time import run_virtual
from gpuruntime.web.resources.jobs import job_view, newest_first

MANY = 4500
SPEC = OperationSpec("stock-1", "hash", "seed_stock_units")
CREATED = "2026-01-02T03:04:05Z"


class Silent:
    """The transport to an API server that is away."""

    async def send(self, request: Request) -> Any:
        raise UnavailableError(f"{request}: connection refused")

    def stream(self, request: Request, *, idle_timeout: float) -> Any:
        raise NotImplementedError(request, idle_timeout)


async def reads() -> Reads[Operation]:
    """Many Operations in a cache; newer ones sort first by name."""
    informer = Cache(Silent()).informer(Operation, namespaces=["system"])
    writer = informer._writer
    listed = writer.new_indexer()
    for number in range(MANY):
        created = f"2026-01-01T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}Z"
        name = f"op-{MANY - number:05}"
        metadata = {"name": name, "namespace": "system", "uid": name, "resourceVersion": str(number + 1)}
        spec = {"operationID": str(number), "type": "odd" if number % 2 else "even", "requestHash": "x"}
        listed.put(listed.entry({"metadata": {**metadata, "creationTimestamp": created}, "spec": spec}, 100))
    await writer.replace("system", listed, str(MANY))
    return Reads(informer, Client(Silent(), field_manager="test"), Operation)


def test_the_newest_of_many_jobs_are_found_without_blocking_the_event_loop() -> None:
    async def story() -> None:
        known = await reads()
        iterations = 0

        async def other() -> None:
            nonlocal iterations
            while True:
                iterations += 1
                await asyncio.sleep(0)

        others = asyncio.create_task(other())
        page = await newest_first(known, lambda operation: operation.spec.type == "odd", 3)
        others.cancel()

        assert [operation.spec.operation_id for operation in page.items] == ["4499", "4497", "4495"]
        assert (page.version, page.next is not None) == (str(MANY), True)
        assert iterations >= MANY // 1000

    run_virtual(story())


@pytest.mark.parametrize(("limit", "found"), [(2, 2), (3, 3), (4, 3)])
def test_the_last_page_has_no_cursor(limit: int, found: int) -> None:
    async def story() -> None:
        page = await newest_first(await reads(), lambda operation: int(operation.spec.operation_id) < 3, limit)

        assert (len(page.items), page.next is None) == (found, limit >= found == 3)

    run_virtual(story())


def test_a_version_that_the_cache_does_not_show_is_read_live() -> None:
    async def story() -> None:
        with pytest.raises(UnavailableError):
            await newest_first(await reads(), lambda _: True, 10, at_least=str(MANY + 1))

    run_virtual(story())


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
