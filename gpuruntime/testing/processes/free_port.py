"""A port that stays free while its server is down."""

import os
import socket
from pathlib import Path
from random import Random
from typing import Final

__all__ = ["free_port"]

_HOST: Final = "127.0.0.1"
_LOWEST_PORT: Final = 10_000
_EPHEMERAL: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """A free port that stays free until a process listens on it, however late.

    It is outside of the range from which the kernel gives a port to every connection and to every server that asks for
    any: a port of that range may be gone by the time.
    """
    highest = int(_EPHEMERAL.read_text().split()[0]) - 1 if _EPHEMERAL.exists() else 32_767
    random = Random(os.urandom(8))
    while True:
        port = random.randint(_LOWEST_PORT, highest)
        with socket.socket() as probe:
            try:
                probe.bind((_HOST, port))
            except OSError:
                continue
        return port
