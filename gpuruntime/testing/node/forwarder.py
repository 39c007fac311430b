"""A script that forwards TCP connections: `forwarder.py LISTEN-HOST LISTEN-PORT HOST PORT`. Standard library only."""

import asyncio
import contextlib
import sys

__all__ = ["main"]

_CHUNK = 64 * 1024


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
        writer.write_eof()


async def _serve(listen: tuple[str, int], target: tuple[str, int]) -> None:
    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            remote_reader, remote_writer = await asyncio.open_connection(*target)
        except OSError:  # the API server restarts: the client connects again
            writer.transport.abort()
            return
        try:
            await asyncio.gather(_copy(reader, remote_writer), _copy(remote_reader, writer))
        finally:
            writer.close()
            remote_writer.close()

    server = await asyncio.start_server(forward, *listen)
    async with server:
        await server.serve_forever()


def main(argv: list[str]) -> None:
    """Forward until killed."""
    listen_host, listen_port, host, port = argv[1:]
    asyncio.run(_serve((listen_host, int(listen_port)), (host, int(port))))


if __name__ == "__main__":
    main(sys.argv)
