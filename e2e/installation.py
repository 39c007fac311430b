"""An installation of the product: the interface of the stories, wherever its replicas run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from attrs import field, frozen

from e2e.audit_trail import AuditTrail
from e2e.caller import Caller
from e2e.cluster_view import ClusterView

__all__ = ["Installation", "Kubectl", "Replica", "Replicas"]


@frozen
class Replica:
    """One process of a replica; `credential` names it in the audit log: see `Write`."""

    name: str
    life: str
    credential: str


class Replicas(Protocol):
    """The replicas of both processes. A replica that exits is restarted."""

    def living(self, process: str) -> Mapping[str, Replica]:
        """The current replicas of a process by name."""

    def leader(self) -> Replica:
        """Wait until a controller manager leads, and return it."""

    def kill(self, replica: Replica) -> None:
        """Kill it without a chance to clean up."""

    def end(self, replica: Replica) -> None:
        """Send SIGTERM, or delete the pod."""

    def roll(self, process: str) -> None:
        """Restart the replicas of a process one by one; returns when all new ones are ready."""

    def wait_until_ready(self) -> None:
        """Wait until every replica is ready and one leads."""

    def logs(self) -> Mapping[str, str]:
        """The last log lines of every replica."""


class Kubectl(Protocol):
    """kubectl with administrator credentials."""

    def __call__(self, *arguments: str) -> str:
        """Run kubectl and return its output."""


@frozen
class Installation:
    """A running installation. `trail` is the audit log of its cluster, if it is available.

    `directory` is for files; `overlay` is what was applied.
    """

    api: Caller
    cluster: ClusterView
    replicas: Replicas
    kubectl: Kubectl
    overlay: Path
    directory: Path
    trail: AuditTrail | None = field(default=None)
