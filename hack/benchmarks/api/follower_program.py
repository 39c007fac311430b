"""A program with many clients that start to watch all units at once. It prints the seconds until all have the full
state.

``python follower_program.py HOST PORT NUMBER``; the clients stay connected until standard input is closed.
"""

import asyncio
import json
import sys
import time

_CONNECTING = 100
_END = b"event: synced"
_REQUEST = b"GET /api/v1/gpu-units?watch=1 HTTP/1.1\r\nHost: %b:%d\r\n\r\n"


class Follower(asyncio.Protocol):
    """A client that only detects the end of the full state."""

    def __init__(self, host: str, port: int) -> None:
        self._request = _REQUEST % (host.encode(), port)
        self._last = b""
        self.has_all: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.WriteTransport):
            transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self.has_all.done() and _END in self._last + data[: len(_END)] + data:
            self.has_all.set_result(time.perf_counter())
        self._last = data[-len(_END) :]

    def connection_lost(self, error: Exception | None) -> None:
        if not self.has_all.done():
            self.has_all.set_exception(ConnectionError(f"the stream ended before the full state did: {error}"))


async def main(host: str, port: int, number: int) -> None:
    loop, began, doors = asyncio.get_running_loop(), time.perf_counter(), asyncio.Semaphore(_CONNECTING)

    async def follow() -> float:
        async with doors:
            _, follower = await loop.create_connection(lambda: Follower(host, port), host, port)
        return await follower.has_all

    times = await asyncio.gather(*(follow() for _ in range(number)))
    print(json.dumps({"seconds": max(times) - began}), flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
