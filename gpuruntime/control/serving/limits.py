"""Limits of an HTTP site: the number of connections, and timeouts."""

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

_DEFAULT_CONNECTIONS: Final = 10_000
_UNLIMITED: Final = 2**20
# Requests to the API server, watches, probes, logs and certificates need descriptors even at the connection limit.
_MIN_RESERVE: Final = 128
_IPV6_HOST_PREFIX: Final = 64


@frozen
class HttpLimits:
    """The limits of a site.

    Args:
        connections: maximum number of open connections; None means 10,000. A quarter of the file descriptors of the
            process is reserved for other uses: at least 128, at most half of them.
        per_address: maximum number of connections from one address; None means three quarters of `connections`. An
            IPv6 address counts as its /64 network.
        handshake_seconds: timeout of the TLS handshake.
        head_seconds: timeout from the start of a connection or the first byte of a request to the end of its headers.
        idle_seconds: keep-alive timeout.
        send_seconds: timeout for the client to receive a response. Streams are not limited.
        linger_seconds, linger_bytes: how long and how much of an unread body is received and discarded after the
            response, so that the client can read the response before the connection closes.

    Raises:
        ValueError: a number of connections below 1.
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
"""Limits for probes, metrics and debug pages, which have few clients."""


def connection_counts(limits: HttpLimits, open_files: int) -> tuple[int, int]:
    """The maximum number of connections in total and per address, in a process that may open this many files."""
    reserve = min(max(_MIN_RESERVE, open_files // 4), open_files // 2)
    wanted = _DEFAULT_CONNECTIONS if limits.connections is None else limits.connections
    total = max(1, min(wanted, open_files - reserve))
    each = limits.per_address if limits.per_address is not None else max(1, total * 3 // 4)
    return total, min(each, total)


def open_files_limit() -> int:
    """The number of files that this process may open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _UNLIMITED if soft == resource.RLIM_INFINITY else soft


def address_group(host: str) -> str:
    """The group in which a remote address is counted: an IPv4 address itself, the /64 network of an IPv6 address."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    network = int(address) >> (128 - _IPV6_HOST_PREFIX) << (128 - _IPV6_HOST_PREFIX)
    return f"{IPv6Address(network)}/{_IPV6_HOST_PREFIX}"
