"""How many connections a site holds at a time, and how long one may take for what it does."""

import resource
from ipaddress import IPv6Address, ip_address
from typing import Final

from attrs import frozen

__all__ = [
    "OBSERVABILITY_LIMITS",
    "HttpLimits",
    "address_group",
    "connection_counts",
    "open_files_limit",
]

_USUAL: Final = 10_000
_UNLIMITED: Final = 2**20
# Requests to the API server, watches, probes, logs and certificates need descriptors while all callers are connected.
_LEAST_RESERVE: Final = 128
_PREFIX_OF_A_HOST: Final = 64


@frozen
class HttpLimits:
    """The limits of a site.

    Args:
        connections: at most this many at a time; None is 10,000. There are never more than three quarters of the
            descriptors that the process may open, of which 128 are kept back at least and half at most.
        per_address: at most this many from one address; None is three quarters of `connections`. An IPv6 address
            counts as its /64 network.
        handshake_seconds: for the TLS handshake.
        head_seconds: from the first byte of a request, or from the begin of a connection, to the end of the headers.
        idle_seconds: how long a connection waits for its next request.
        send_seconds: for an answer to be taken by its reader. Streams write as long as they like.
        linger_seconds, linger_bytes: how long and how much of an unread body is received and dropped after the answer,
            so that its sender can read the answer before the connection closes.

    Raises:
        ValueError: a limit below 1.
    """

    connections: int | None = None
    per_address: int | None = None
    handshake_seconds: float = 10.0
    head_seconds: float = 10.0
    idle_seconds: float = 75.0
    send_seconds: float = 60.0
    linger_seconds: float = 5.0
    linger_bytes: int = 2 * 2**20

    def __attrs_post_init__(self) -> None:
        for name, number in (("connections", self.connections), ("per_address", self.per_address)):
            if number is not None and number < 1:
                raise ValueError(f"HttpLimits.{name}: expected 1 or more, got {number}")


OBSERVABILITY_LIMITS: Final = HttpLimits(connections=32, per_address=24, idle_seconds=30.0)
"""For probes, metrics and debug pages, which a few callers ask."""


def connection_counts(limits: HttpLimits, open_files: int) -> tuple[int, int]:
    """How many connections there may be in all and per address, in a process that may open this many files."""
    reserve = min(max(_LEAST_RESERVE, open_files // 4), open_files // 2)
    total = max(1, min(_USUAL if limits.connections is None else limits.connections, open_files - reserve))
    each = limits.per_address if limits.per_address is not None else max(1, total * 3 // 4)
    return total, min(each, total)


def open_files_limit() -> int:
    """How many files this process may open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _UNLIMITED if soft == resource.RLIM_INFINITY else soft


def address_group(host: str) -> str:
    """What a remote address is counted as: IPv4 as it is, IPv6 by the network of which one host has all."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    kept = int(address) >> (128 - _PREFIX_OF_A_HOST) << (128 - _PREFIX_OF_A_HOST)
    return f"{IPv6Address(kept)}/{_PREFIX_OF_A_HOST}"
