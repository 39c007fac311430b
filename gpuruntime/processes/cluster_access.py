"""A process's way into its cluster."""

from enum import Enum
from pathlib import Path
from typing import Final

from gpuruntime.kube import Credentials, KubeError, Request, Transport, find, from_kubeconfig
from gpuruntime.processes.late_credentials import LateCredentials

__all__ = ["KubeMode", "NoClusterError", "late_credentials", "require_cluster"]

_REACH_SECONDS: Final = 10.0


class KubeMode(Enum):
    """What a process does without a cluster."""

    AUTO = "auto"
    """It starts, and serves nothing but /health until the cluster is there."""
    OFF = "off"
    """It needs none: health, stocks and VMs are kept in memory."""
    REQUIRED = "required"
    """It does not start."""


class NoClusterError(Exception):
    """A cluster is required and does not answer; the message says why."""


def late_credentials(kubeconfig: Path | None) -> LateCredentials:
    """The credentials that a kubeconfig holds, or else the usual places, as soon as there are any."""
    return LateCredentials(find if kubeconfig is None else lambda: from_kubeconfig(kubeconfig))


async def require_cluster(credentials: Credentials) -> None:
    """Pass if the cluster answers.

    Raises:
        NoClusterError: it does not.
    """
    async with Transport(credentials, user_agent="gpuruntime") as transport:
        try:
            await transport.send(Request("GET", "/version", timeout=_REACH_SECONDS))
        except KubeError as error:
            raise NoClusterError(
                f"the cluster at {credentials.endpoint.server} does not answer: {error}; start it, or do not require it"
                " (kube mode auto)"
            ) from error
