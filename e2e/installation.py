"""The product as somebody has installed it: what stories see of it, wherever its replicas run."""

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
    """One life of one replica. `credential` is what the audit log calls its token, "" where nobody can know."""

    name: str
    life: str
    credential: str = ""


class Replicas(Protocol):
    """The replicas of both processes. Whoever ends one can count on another life of it."""

    def living(self, process: str) -> Mapping[str, Replica]:
        """The replicas of a process as they are now, by their names."""

    def leader(self) -> Replica:
        """The controller manager that leads, once one does."""

    def kill(self, replica: Replica) -> None:
        """End it as a machine that loses its power does."""

    def end(self, replica: Replica) -> None:
        """Ask it to end."""

    def roll(self, process: str) -> None:
        """Replace every replica of a process, one after the other; returns when all new ones are ready."""

    def settle(self) -> None:
        """Returns when every replica is ready and one leads."""

    def logs(self) -> Mapping[str, str]:
        """The last words of every replica."""


class Kubectl(Protocol):
    """An administrator's terminal."""

    def __call__(self, *arguments: str) -> str:
        """What kubectl prints."""


@frozen
class Installation:
    """The product at work.

    `trail` is the audit log of its cluster, None where that is not at hand. `directory` is a place for files; `overlay`
    is what was applied.
    """

    api: Caller
    cluster: ClusterView
    replicas: Replicas
    kubectl: Kubectl
    overlay: Path
    directory: Path
    trail: AuditTrail | None = field(default=None)
