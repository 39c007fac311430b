"""The load balancer in balancer of the replicas."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from e2e.load_balancer import Address, Backend, LoadBalancer


@asynccontextmanager
async def replica(name: str, *, ready: bool = True) -> AsyncIterator[Backend]:
    """A replica that sends its name on each connection, and serves a readiness probe on another port."""

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(name.encode())
        writer.close()

    async def probe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"HTTP/1.0 200 OK\r\n\r\n" if ready else b"HTTP/1.0 503 Service Unavailable\r\n\r\n")
        writer.close()

    served = await asyncio.start_server(serve, "127.0.0.1")
    probed = await asyncio.start_server(probe, "127.0.0.1")
    async with served, probed:
        yield Backend(address_of(served), address_of(probed))


def address_of(server: asyncio.Server) -> Address:
    return Address(*server.sockets[0].getsockname())


@asynccontextmanager
async def balanced(*backends: Backend) -> AsyncIterator[Address]:
    """A load balancer that has probed every replica."""
    balancer = LoadBalancer(*backends)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(balancer.run(Address("127.0.0.1", 0)))
        address = await balancer.listening()
        yield address
        running.cancel()


async def answering_replicas(address: Address, times: int) -> list[str]:
    answers: list[str] = []
    for _ in range(times):
        reader, writer = await asyncio.open_connection(address.host, address.port)
        answers.append((await reader.read()).decode())
        writer.close()
    return answers


async def test_each_connection_goes_to_the_next_replica() -> None:
    async with AsyncExitStack() as stack:
        backends = [await stack.enter_async_context(replica(name)) for name in ("a", "b", "c")]
        address = await stack.enter_async_context(balanced(*backends))

        answers = await answering_replicas(address, 6)

    assert answers == ["a", "b", "c"] * 2


async def test_replicas_that_are_not_ready_or_refuse_connections_are_skipped() -> None:
    async with AsyncExitStack() as stack:
        kept = await stack.enter_async_context(replica("kept"))
        unready = await stack.enter_async_context(replica("unready", ready=False))
        async with replica("gone") as gone:
            pass
        gone.probed = kept.probed
        address = await stack.enter_async_context(balanced(kept, unready, gone))

        answers = await answering_replicas(address, 4)

    assert answers == ["kept"] * 4


async def test_without_a_ready_replica_the_connection_is_closed() -> None:
    async with replica("unready", ready=False) as backend, balanced(backend) as address:
        answers = await answering_replicas(address, 1)

    assert answers == [""]
