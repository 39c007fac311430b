"""Hostile requests, sent from threads so that they do not block the measuring loop."""

import asyncio
import gzip
import socket
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from attrs import field, frozen

from hack.benchmarks.creating import ObjectsError

__all__ = ["BOMBS", "FAULTS", "KNOWN_BOMBS", "NUMBER", "Attack", "strike"]

NUMBER: Final = 10
"""The number of simultaneous requests."""
_MEGABYTE: Final = 2**20
_TIMEOUT_SECONDS: Final = 60.0


@frozen
class Attack:
    """A POST body for /gpu-units, with or without a token, and the expected status."""

    name: str
    status: int
    body: Callable[[], bytes] = field(repr=False)
    header: str = ""
    is_known: bool = False


def _bomb() -> bytes:
    """A gigabyte of zeros in a megabyte of gzip: the same independent block repeated."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    block = packer.compress(bytes(_MEGABYTE)) + packer.flush(zlib.Z_FULL_FLUSH)
    head = gzip.compress(b"")[:10]
    return head + block * min(1024, (_MEGABYTE - len(head)) // len(block))


def _faults() -> bytes:
    head, item, tail = b'{"operationID":"bench","template":{"envs":[', b'{"a":1},', b"{}]}}"
    return head + item * ((_MEGABYTE - len(head) - len(tail)) // len(item)) + tail


_GZIP: Final = "Content-Encoding: gzip\r\n"
BOMBS: Final = Attack(f"{NUMBER} gzip bombs without a token", 401, _bomb, _GZIP)
KNOWN_BOMBS: Final = Attack(f"{NUMBER} gzip bombs with a token", 415, _bomb, _GZIP, is_known=True)
FAULTS: Final = Attack(f"{NUMBER} megabytes of small faults with a token", 400, _faults, is_known=True)


async def strike(attack: Attack, address: str, token: str, body: bytes) -> None:
    """Send a hostile request ten times at once and read the responses.

    Raises:
        ObjectsError: an answer is not the expected one.
    """
    authorization = f"Authorization: Bearer {token}\r\n" if attack.is_known else ""
    head = (
        "POST /api/v1/gpu-units HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"{authorization}{attack.header}Content-Length: {len(body)}\r\n\r\n"
    )
    host, _, port = address.partition(":")
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(NUMBER) as threads:
        sendings = [
            loop.run_in_executor(threads, _answer, (host, int(port)), head.encode() + body) for _ in range(NUMBER)
        ]
        statuses = await asyncio.gather(*sendings)
    if set(statuses) != {attack.status}:
        raise ObjectsError(f"{attack.name}: expected {attack.status} of each, got {statuses}")


def _answer(address: tuple[str, int], request: bytes) -> int:
    with socket.create_connection(address, _TIMEOUT_SECONDS) as connection:
        connection.sendall(request)
        words = connection.recv(1024).split()
    return int(words[1]) if len(words) > 1 else 0
