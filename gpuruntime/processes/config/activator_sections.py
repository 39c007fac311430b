"""The sections of the activator."""

from typing import Any, Final

from attrs import frozen

from gpuruntime.control import HttpAddress
from gpuruntime.processes.config.keys import key
from gpuruntime.processes.config.notations import ADDRESS, OBJECT_NAME, count
from gpuruntime.processes.config.sections import LeaderElection

__all__ = ["ActivatorElection", "ManagerActivator", "stream_replicas_key"]

_LEASE: Final = "gpuruntime-activator"
_MOST_REPLICAS: Final = 5


def stream_replicas_key() -> Any:
    """The key of the number of NATS servers that have each stream."""
    return key(count(1, _MOST_REPLICAS), 1, "number of NATS servers that keep each stream; 3 needs three servers")


@frozen
class ActivatorElection(LeaderElection):
    """The election of the activator that keeps the streams. All of them dispatch."""

    lease_name: str = key(OBJECT_NAME, _LEASE, "name of the Lease in the system namespace; all activators share it")


@frozen
class ManagerActivator:
    """The activator in the process `manager`: off without an address."""

    http_addr: HttpAddress | None = key(ADDRESS, None, "address for workers; without it there is no activator")
    stream_replicas: int = stream_replicas_key()
