"""Attempts at Operations, and how a stop of the process ends them: on a scripted server."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import pytest
from attrs import evolve

from gpuruntime.api.operation import CREATE_GPU_UNIT, Operation, operation_name
from gpuruntime.kube.errors import UnavailableError
from gpuruntime.meta import Struct, encode
from gpuruntime.service.errors import NotFinishedError, NotRunningError
from gpuruntime.service.operations.executor import OperationExecutor
from gpuruntime.service.operations.lease import OperationLease, Outcome
from gpuruntime.service.operations.record import new_operation
from gpuruntime.testing.scripted.answers import Answer, Hold, kube_status, respond
from gpuruntime.testing.scripted.server import ScriptedServer
from tests.control.operator_scenes import open_transport

PATH = "/apis/runtime.lokiwager.io/v1alpha1/namespaces/system/operations"
NAME = operation_name("order-1")


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuruntime.service.operations.executor._GRACE_SECONDS", 0.2)


class Endless:
    """A handler that waits for ever."""

    type: ClassVar = CREATE_GPU_UNIT

    async def run(self, _lease: OperationLease) -> Outcome:
        await asyncio.get_running_loop().create_future()
        raise AssertionError


class Interrupted:
    """A handler whose attempt is interrupted at once."""

    type: ClassVar = CREATE_GPU_UNIT

    async def run(self, _lease: OperationLease) -> Outcome:
        raise UnavailableError("the server is away")


def wanted(owner: str, uid: str = "") -> Operation:
    """The Operation to create; with a UID as the server stores it."""
    made = new_operation("order-1", CREATE_GPU_UNIT, "hash", Struct(), namespace="system", created_by=owner)
    return evolve(made, metadata=evolve(made.metadata, uid=uid, resource_version="1" if uid else ""))


def stored(owner: str) -> Mapping[str, Any]:
    kind = {"apiVersion": "runtime.lokiwager.io/v1alpha1", "kind": "Operation"}
    return kind | dict(encode(wanted(owner, "u1")))


@asynccontextmanager
async def executing(
    handler: Endless | Interrupted, *creates: Answer
) -> AsyncIterator[tuple[ScriptedServer, OperationExecutor, asyncio.Task[None]]]:
    """A server with these answers to creates, an executor, and the task that runs it."""
    async with ScriptedServer() as server, open_transport(server.url) as transport:
        server.on("POST", PATH).answer(*creates)
        executor = OperationExecutor(transport, [handler], field_manager="t", identity="me")
        run = asyncio.create_task(executor.run())
        await asyncio.sleep(0)
        yield server, executor, run
        run.cancel()
        await asyncio.wait([run])


async def test_a_retried_create_that_meets_its_own_operation_is_the_first_attempt() -> None:
    async with executing(Endless(), kube_status(409, "AlreadyExists")) as (server, executor, _):
        server.on("GET", f"{PATH}/{NAME}").answer(respond(200, stored("me/1")))

        submitted = await executor.create(wanted("me/1"))

        assert submitted is not None
        assert not submitted.is_replay
        assert submitted.outcome is executor.outcome_of(submitted.operation)
        assert executor.is_running(NAME)


@pytest.mark.parametrize(
    ("answer", "is_replay"),
    [(respond(200, stored("other/1")), True), (kube_status(404, "NotFound"), None)],
    ids=["of another process", "gone again"],
)
async def test_an_operation_that_exists_is_not_started(answer: Answer, is_replay: bool | None) -> None:
    async with executing(Endless(), kube_status(409, "AlreadyExists")) as (server, executor, _):
        server.on("GET", f"{PATH}/{NAME}").answer(answer)

        submitted = await executor.create(wanted("me/1"))

        assert (None if submitted is None else submitted.is_replay) is is_replay
        assert not executor.is_running(NAME)


async def test_an_attempt_that_is_interrupted_at_once_still_reports_its_error() -> None:
    async with executing(Interrupted(), respond(201, stored("me/1"))) as (_, executor, _run):
        submitted = await executor.create(wanted("me/1"))

        assert submitted is not None
        assert submitted.outcome is not None
        with pytest.raises(UnavailableError):
            await submitted.outcome


async def test_an_operation_that_is_stored_while_the_process_stops_is_left_to_others() -> None:
    async with executing(Endless(), (Hold(), *respond(201, stored("me/1")))) as (server, executor, run):
        creating = executor.create(wanted("me/1"))
        await server.seen(1, "POST", PATH)
        run.cancel()
        await asyncio.sleep(0)

        with pytest.raises(NotRunningError):
            executor.create(wanted("me/2"))
        server.release()
        with pytest.raises(NotRunningError):
            await creating
        await asyncio.wait([run])

        assert not executor.is_running(NAME)


async def test_attempts_that_do_not_end_in_the_grace_are_cancelled_and_their_callers_get_not_finished() -> None:
    async with executing(Endless(), respond(201, stored("me/1"))) as (_, executor, run):
        submitted = await executor.create(wanted("me/1"))
        assert submitted is not None
        assert submitted.outcome is not None
        run.cancel()
        await asyncio.wait([run])

        with pytest.raises(NotFinishedError):
            submitted.outcome.result()
        assert not executor.is_running(NAME)
