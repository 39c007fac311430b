"""Queues on a server whose storage is smaller than the sum of their limits."""

from gpuruntime.api.gpufunction import GPUFunction, GPUFunctionSpec
from gpuruntime.api.invocations import function_stream
from gpuruntime.meta import ObjectMeta
from gpuruntime.service.invocations.streams import ensure_queue, ensure_shared_streams
from gpuruntime.testing.nats import NatsServer
from tests.bus.connected import connected


async def test_empty_queues_take_no_storage_however_large_their_limits(nats_server: NatsServer) -> None:
    functions = [
        GPUFunction(
            metadata=ObjectMeta(name=f"f{number}", namespace="ns", uid=str(number)), spec=GPUFunctionSpec("g1.1")
        )
        for number in range(5)
    ]

    async with connected(nats_server.options("activator")) as bus:
        await ensure_shared_streams(bus)
        for function in functions:
            await ensure_queue(bus, function)
        found = [await bus.jetstream.stream_info(function_stream(function.key)) for function in functions]

    assert all(info is not None for info in found)
