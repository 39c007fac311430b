"""An HTTP client that takes as little CPU as it can: it shares two cores with what it measures."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from attrs import frozen

from gpuruntime.endpoints.server.route import PREFIX
from hack.benchmarks.contenders import Reading
from hack.benchmarks.creating import ObjectsError

__all__ = ["Connection", "connection", "connections", "in_turn"]

_LENGTH: Final = b"content-length:"


@frozen(eq=False)
class Connection:
    """A connection that stays open, for one request at a time."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ask(self, method: str, path: str, *statuses: int, body: bytes = b"") -> bytes:
        """Send a request below the prefix of the API and return the body of the response.

        Raises:
            ObjectsError: it has a status that was not expected.
        """
        head = f"{method} {PREFIX}{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        self.writer.write(b"%bContent-Length: %d\r\n\r\n%b" % (head.encode(), len(body), body))
        lines = (await self.reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        length = next((int(line[len(_LENGTH) :]) for line in lines if line.lower().startswith(_LENGTH)), 0)
        said = await self.reader.readexactly(length)
        status = int(lines[0].split()[1])
        if status not in statuses:
            raise ObjectsError(f"{method} {path}: expected {statuses}, got {status}: {said[:300]!r}")
        return said


@asynccontextmanager
async def connection(address: tuple[str, int]) -> AsyncIterator[Connection]:
    reader, writer = await asyncio.open_connection(*address)
    try:
        yield Connection(reader, writer)
    finally:
        writer.close()


@asynccontextmanager
async def connections(address: tuple[str, int], number: int) -> AsyncIterator[tuple[Connection, ...]]:
    async with AsyncExitStack() as stack:
        yield tuple([await stack.enter_async_context(connection(address)) for _ in range(number)])


async def in_turn(
    opened: Sequence[Connection], number: int, request: Callable[[Connection, int], Awaitable[object]]
) -> Reading:
    """Send `number` requests, always one on each connection until they run out."""
    numbers = iter(range(number))

    async def caller(one: Connection) -> None:
        for each in numbers:
            await request(one, each)

    began = time.perf_counter()
    try:
        async with asyncio.TaskGroup() as group:
            for one in opened:
                group.create_task(caller(one))
    except ExceptionGroup as failed:
        raise ObjectsError(f"a request failed: {failed.exceptions[0]!r}") from failed
    return {"seconds": time.perf_counter() - began, "messages": float(number)}
