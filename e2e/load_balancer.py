"""A TCP load balancer, as a Service is: each new connection goes to the next ready replica.

It does not inspect or retry requests, and has no session affinity. A replica that refuses a connection is skipped; open
connections stay with their replica.

    python -m e2e.load_balancer 127.0.0.1:8000 127.0.0.1:8080=127.0.0.1:8082 ...

The second address of a replica serves /readyz.
"""

import argparse
import asyncio
import contextlib
import itertools
import sys
from typing import Final, Self

from attrs import define, frozen

__all__ = ["Address", "Backend", "LoadBalancer", "main"]

_PROBE_SECONDS: Final = 0.2
_PATIENCE_SECONDS: Final = 5.0
_CHUNK: Final = 65536


@frozen
class Address:
    """An address on this machine."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        host, _, port = text.rpartition(":")
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@define
class Backend:
    """A replica: the address that it serves, and the address of its readiness probe."""

    serves: Address
    probed: Address
    is_ready: bool = False

    @classmethod
    def parse(cls, text: str) -> Self:
        serves, _, probed = text.partition("=")
        return cls(Address.parse(serves), Address.parse(probed or serves))

    async def probe(self) -> bool:
        """Whether the replica is ready now."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                reader, writer = await asyncio.open_connection(self.probed.host, self.probed.port)
                with contextlib.closing(writer):
                    writer.write(f"GET /readyz HTTP/1.0\r\nHost: {self.probed}\r\n\r\n".encode())
                    status = await reader.readline()
        except (OSError, TimeoutError):
            return False
        return b" 200 " in status


class LoadBalancer:
    """Distributes connections round-robin."""

    def __init__(self, *backends: Backend) -> None:
        self._backends = backends
        self._turn = itertools.count()
        self._address: asyncio.Future[Address] = asyncio.get_running_loop().create_future()

    async def run(self, address: Address) -> None:
        """Serve until cancelled."""
        for backend in self._backends:
            backend.is_ready = await backend.probe()
        async with asyncio.TaskGroup() as group:
            for backend in self._backends:
                group.create_task(self._watch(backend))
            server = await asyncio.start_server(self._serve, address.host, address.port)
            self._address.set_result(Address(*server.sockets[0].getsockname()))
            async with server:
                await server.serve_forever()

    async def listening(self) -> Address:
        """Wait until it listens, and return the address."""
        return await self._address

    async def _watch(self, backend: Backend) -> None:
        while True:
            await asyncio.sleep(_PROBE_SECONDS)
            backend.is_ready = await backend.probe()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            found = await self._connect()
            if found is None:
                return
            there, back = found
            with contextlib.closing(back):
                await self._join((reader, back), (there, writer))

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        first = next(self._turn)
        for offset in range(len(self._backends)):
            backend = self._backends[(first + offset) % len(self._backends)]
            if backend.is_ready:
                with contextlib.suppress(OSError):
                    return await asyncio.open_connection(backend.serves.host, backend.serves.port)
        return None

    async def _join(self, *ways: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        async with asyncio.TaskGroup() as group:
            for reader, writer in ways:
                group.create_task(_pass_on(reader, writer))


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until one side ends: pass an end of file on, and abort the other side after an error."""
    try:
        while chunk := await reader.read(_CHUNK):
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.transport.abort()


def main(argv: list[str]) -> None:
    """Run the load balancer until a signal."""
    parser = argparse.ArgumentParser(prog="python -m e2e.load_balancer", description=__doc__)
    parser.add_argument("address", type=Address.parse)
    parser.add_argument("backends", type=Backend.parse, nargs="+")
    arguments = parser.parse_args(argv)

    async def serve() -> None:
        await LoadBalancer(*arguments.backends).run(arguments.address)

    asyncio.run(serve())


if __name__ == "__main__":
    main(sys.argv[1:])
