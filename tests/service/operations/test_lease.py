"""What a first attempt saves, because it knows that there is no earlier one: on a scripted server."""

import pytest

from gpuruntime.api.operation import CREATE_GPU_UNIT, Operation, OperationStatus
from gpuruntime.kube.transport.transport import Transport
from gpuruntime.meta import ObjectMeta, Struct, encode
from gpuruntime.service.operations.lease import OperationLease
from gpuruntime.service.operations.record import LeaseTiming, new_operation
from gpuruntime.testing.scripted.answers import respond
from gpuruntime.testing.scripted.server import ScriptedServer
from tests.control.operator_scenes import open_transport

KIND = {"apiVersion": "runtime.lokiwager.io/v1alpha1", "kind": "Operation"}


def an_operation(attempts: int | None) -> Operation:
    made = new_operation("order-1", CREATE_GPU_UNIT, "hash", Struct(), namespace="system", created_by="me/1")
    metadata = ObjectMeta(name=made.metadata.name, namespace="system", uid="u1", resource_version="1")
    return Operation(metadata, made.spec, OperationStatus(owner="me/1", attempts=attempts))


def a_lease(operation: Operation, transport: Transport) -> OperationLease:
    return OperationLease(
        operation, transport, owner="me/1", began=0.0, field_manager="t", timing=LeaseTiming(), clock=lambda: 0.0
    )


@pytest.mark.parametrize(
    ("attempts", "is_seen", "found"),
    [(None, False, None), (1, False, None), (None, True, "it"), (2, False, "it"), (2, True, "it")],
)
async def test_only_a_later_attempt_looks_for_what_an_earlier_one_left_unless_there_are_other_signs(
    attempts: int | None, is_seen: bool, found: str | None
) -> None:
    async def find() -> str:
        return "it"

    async with ScriptedServer() as server, open_transport(server.url) as transport:
        lease = a_lease(an_operation(attempts), transport)

        assert await lease.earlier(find, is_seen=is_seen) == found


@pytest.mark.parametrize(("attempts", "writes"), [(None, 0), (1, 0), (2, 1)])
async def test_a_first_attempt_confirms_its_lease_without_a_request(attempts: int | None, writes: int) -> None:
    operation = an_operation(attempts)
    async with ScriptedServer() as server, open_transport(server.url) as transport:
        path = f"/apis/runtime.lokiwager.io/v1alpha1/namespaces/system/operations/{operation.metadata.name}/status"
        server.on("PATCH", path).answer(respond(200, KIND | dict(encode(operation))))

        await a_lease(operation, transport).confirm()

        assert len(server.requests()) == writes
