"""A served function in the loop of a test, and a client that speaks HTTP by hand."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from gpuruntime.framework.http_messages import Message, read_responses
from gpuruntime.framework.serving import ServeOptions, serve_until
from gpuruntime.framework.user_function import UserFunction

__all__ = ["Client", "Served", "connected", "envelope", "post", "served"]


def envelope(id_: str = "inv-1", payload: Any = None, **fields: Any) -> bytes:
    return json.dumps({"invocationID": id_, "payload": payload, **fields}).encode()


def post(path: str, body: bytes = b"", headers: str = "") -> bytes:
    return f"POST {path} HTTP/1.1\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body


class Client:
    """One connection to a framework."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._messages = read_responses()

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def receive(self) -> Message:
        """The next response."""
        while (message := self._messages.next()) is None:
            data = await self._reader.read(65536)
            if not data:
                raise EOFError("the framework closed the connection")
            self._messages.feed(data)
        return message

    async def ask(self, data: bytes) -> tuple[int, Any]:
        """Send a request; the status and the JSON of its response."""
        self.send(data)
        message = await self.receive()
        return message.status, json.loads(message.body)

    async def ask_until(self, status: int, data: bytes) -> Any:
        """Send a request until its response has a status; the JSON of that response."""
        while True:
            found, answer = await self.ask(data)
            if found == status:
                return answer
            await asyncio.sleep(0.001)

    async def invoke(self, id_: str = "inv-1", payload: Any = None, **fields: Any) -> Any:
        """Invoke the function; the envelope of its answer."""
        status, answer = await self.ask(post("/invoke", envelope(id_, payload, **fields)))
        assert status == 200, answer
        return answer

    async def is_closed(self) -> bool:
        return await self._reader.read() == b""

    def close(self) -> None:
        self._writer.close()


class Served:
    """A function that is served until `stop`."""

    def __init__(self, path: Path, stopping: asyncio.Event, task: "asyncio.Task[None]") -> None:
        self.path = path
        self.stopping = stopping
        self.task = task

    def connected(self) -> Any:
        return connected(self.path)


@asynccontextmanager
async def connected(path: Path) -> AsyncIterator[Client]:
    client = Client(*await asyncio.open_unix_connection(path))
    try:
        yield client
    finally:
        client.close()


@asynccontextmanager
async def served(
    path: Path, function: Callable[..., Any], *, setup: Callable[[], Any] | None = None, **options: Any
) -> AsyncIterator[Served]:
    """Serve a function on a socket; the socket is there when the block begins."""
    stopping = asyncio.Event()
    task = asyncio.create_task(
        serve_until(stopping, UserFunction.of(function), setup, ServeOptions(socket_path=path, **options))
    )
    # The socket is made in the first turn of the task.
    await asyncio.sleep(0)
    if setup is None:
        async with connected(path) as client:
            await client.ask_until(200, b"GET /healthz HTTP/1.1\r\n\r\n")
    try:
        yield Served(path, stopping, task)
    finally:
        stopping.set()
        await task
