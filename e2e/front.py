"""A front before several replicas, as a Service is: each new connection goes to the next one that is ready.

It looks at nothing that passes through it, sends nothing again, and remembers no client. A replica that refuses a
connection is passed over; who is connected already stays where he is.

    python -m e2e.front 127.0.0.1:8000 127.0.0.1:8080=127.0.0.1:8082 ...

The second address of a replica is where it answers /readyz.
"""

import argparse
import asyncio
import contextlib
import itertools
import sys
from typing import Final, Self

from attrs import define, frozen

__all__ = ["Address", "Backend", "Front", "main"]

_PROBE_SECONDS: Final = 0.2
_PATIENCE_SECONDS: Final = 5.0
_CHUNK: Final = 65536


@frozen
class Address:
    """Where something listens on this machine."""

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
    """A replica: where it serves, and where it says whether it is ready."""

    serves: Address
    probed: Address
    is_ready: bool = False

    @classmethod
    def parse(cls, text: str) -> Self:
        serves, _, probed = text.partition("=")
        return cls(Address.parse(serves), Address.parse(probed or serves))

    async def probe(self) -> bool:
        """Whether it says that it is ready, now."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                reader, writer = await asyncio.open_connection(self.probed.host, self.probed.port)
                with contextlib.closing(writer):
                    writer.write(f"GET /readyz HTTP/1.0\r\nHost: {self.probed}\r\n\r\n".encode())
                    status = await reader.readline()
        except (OSError, TimeoutError):
            return False
        return b" 200 " in status


class Front:
    """Hands connections out in turn."""

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
        """Where it listens, once it does."""
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
    """Copy until one side ends. The other is told of an end, and loses its connection with one that broke."""
    try:
        while chunk := await reader.read(_CHUNK):
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.transport.abort()


def main(argv: list[str]) -> None:
    """Be the front until a signal comes."""
    parser = argparse.ArgumentParser(prog="python -m e2e.front", description=__doc__)
    parser.add_argument("address", type=Address.parse)
    parser.add_argument("backends", type=Backend.parse, nargs="+")
    arguments = parser.parse_args(argv)

    async def serve() -> None:
        await Front(*arguments.backends).run(arguments.address)

    asyncio.run(serve())


if __name__ == "__main__":
    main(sys.argv[1:])
