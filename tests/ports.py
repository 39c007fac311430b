"""Ports for processes that a test starts."""

import socket
from pathlib import Path
from random import Random
from typing import Final

__all__ = ["free_address", "free_port"]

_HOST: Final = "127.0.0.1"
_LOWEST: Final = 10_000
_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """A free port that stays free until a process listens on it, however late.

    It is outside of the range from which the kernel gives a port to every connection and to every server that asks for
    any: a port of that range may be gone by the time.
    """
    highest = int(_RANGE.read_text().split()[0]) - 1 if _RANGE.exists() else 32_767
    random = Random()
    while True:
        port = random.randint(_LOWEST, highest)
        with socket.socket() as probe:
            try:
                probe.bind((_HOST, port))
            except OSError:
                continue
        return port


def free_address() -> str:
    """An address on this machine with a free port."""
    return f"{_HOST}:{free_port()}"
