"""`gpuruntime manager` processes on their own cluster, with the ServiceAccount of the manifests."""

import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from attrs import field, frozen

from gpuruntime.testing import ClusterAccess, LocalCluster, NodeShape
from gpuruntime.testing.processes.supervised import ChildProcesses
from tests.ports import free_address

__all__ = ["ApiProcesses", "Replica", "api_processes"]

_ROOT: Final = Path(__file__).resolve().parents[1]
_SYSTEM: Final = "gpuruntime-system"
_COMMAND: Final = (sys.executable, "-m", "gpuruntime.processes.command")


@frozen
class Replica:
    """One process; it keeps its name and address across restarts."""

    name: str
    url: str
    command: tuple[str, ...] = field(repr=False)
    log: Path = field(repr=False)

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=5):  # noqa: S310 - an http address
                return True
        except (urllib.error.URLError, OSError):
            return False


@frozen
class ApiProcesses:
    """A cluster with the product installed, and processes of the product that can be killed and restarted."""

    cluster: LocalCluster
    children: ChildProcesses = field(repr=False)
    directory: Path
    kubeconfig: Path
    token: str = field(repr=False)

    @property
    def access(self) -> ClusterAccess:
        return self.cluster.access

    @property
    def credentials(self) -> dict[str, str]:
        """The header of a caller with all scopes."""
        return {"Authorization": f"Bearer {self.token}"}

    def add(self, name: str, *more: str) -> Replica:
        """Start a new process, with more flags; returns when it is ready."""
        address = free_address()
        flags = ("--http-addr", address, "--kubeconfig", str(self.kubeconfig))
        tokens = ("--token-file", str(self.directory / "tokens"))
        command = (*_COMMAND, "manager", *flags, *tokens, *more)
        replica = Replica(name, f"http://{address}", command, self.directory / f"{name}.log")
        self.start(replica)
        while not replica.is_ready():
            assert name not in self.children.exits(), replica.log.read_text()[-2000:]
            time.sleep(0.1)  # there is no event to await
        return replica

    def kill(self, replica: Replica) -> None:
        """Kill a process without a chance to clean up."""
        self.children.signal(replica.name, signal.SIGKILL)
        self.children.stop(replica.name)

    def start(self, replica: Replica) -> None:
        """Start a process that is not running, without waiting until it is ready."""
        self.children.start(replica.name, replica.command, replica.log, {"PYTHONPATH": str(_ROOT)})


@contextmanager
def api_processes(directory: Path, *nodes: NodeShape) -> Iterator[ApiProcesses]:
    """A cluster with these nodes and the manifests, for the length of the block; no process runs yet."""
    with (
        LocalCluster(directory / "cluster", nodes=nodes) as cluster,
        ChildProcesses(directory / "processes") as children,
    ):
        access = cluster.access
        access.kubectl("apply", "--kustomize", str(_ROOT / "manifests" / "overlays" / "local"))
        own = access.kubectl("create", "token", "gpuruntime-manager", "--namespace", _SYSTEM, "--duration", "8h")
        kubeconfig = directory / "manager.kubeconfig"
        kubeconfig.touch(mode=0o600)
        kubeconfig.write_text(json.dumps(access.kubeconfig_for(own.strip())))
        command = [*_COMMAND, "token", "caller", "operator", "--file", str(directory / "tokens")]
        token = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        yield ApiProcesses(cluster, children, directory, kubeconfig, token)
