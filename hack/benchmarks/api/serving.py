"""A cluster with the product installed from its manifests, and a process that serves the API."""

import json
import os
import shutil
import socket
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from attrs import field, frozen

from gpuruntime.testing import AdminClient, ClusterAccess, LocalCluster, NodeShape
from gpuruntime.testing.processes.supervised import ChildProcesses
from hack.benchmarks.creating import ObjectsError

__all__ = ["ACTIVE_UNITS", "BARE", "BARE_UNITS", "STOCK_UNITS", "Served", "api_world", "stock_unit"]

BARE: Final = "bench"
_UNITS: Final = "/apis/runtime.lokiwager.io/v1alpha1/namespaces/{}/gpuunits"
STOCK_UNITS: Final = _UNITS.format("runtime-stock")
ACTIVE_UNITS: Final = _UNITS.format("runtime-instance")
BARE_UNITS: Final = _UNITS.format(BARE)
"""Units that no controller watches: for writes that only the API server handles."""
_SYSTEM: Final = "gpuruntime-system"
_LEASE: Final = f"/apis/coordination.k8s.io/v1/namespaces/{_SYSTEM}/leases/gpuruntime-controller-manager"
_ROOT: Final = Path(__file__).resolve().parents[3]
_UNITS_OF_A_NODE: Final = 100
_START_SECONDS: Final = 60.0
_TICKS: Final = os.sysconf("SC_CLK_TCK")


@frozen
class Served:
    """A process that the scenario starts and stops; its address stays the same."""

    access: ClusterAccess
    url: str
    children: ChildProcesses = field(repr=False)
    command: tuple[str, ...] = field(repr=False)
    log: Path = field(repr=False)
    name: str = "manager"
    _pids: list[int] = field(factory=list, init=False, repr=False)

    @property
    def admin(self) -> AdminClient:
        return self.access.admin()

    def start(self) -> None:
        """Start the process; returns when it is ready.

        Raises:
            ObjectsError: it does not become ready.
        """
        self._pids.append(self.children.start(self.name, self.command, self.log, {"PYTHONPATH": str(_ROOT)}))
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                with urllib.request.urlopen(f"{self.url}/readyz", timeout=2):
                    return
            except OSError as error:
                if self.children.exits() or time.monotonic() > deadline:
                    raise ObjectsError(f"the manager is not ready: {error}; {self.log.read_text()[-300:]}") from error
                time.sleep(0.1)  # there is no event to await

    def another(self) -> "Served":
        """A second process in the same cluster with its own address; it is not started yet."""
        address = _free_address()
        command = tuple(address if word == self.url.removeprefix("http://") else word for word in self.command)
        log = self.log.with_name(f"second-{self.log.name}")
        return Served(self.access, f"http://{address}", self.children, command, log, f"second {self.name}")

    def pause_reconcilers(self) -> None:
        """Restart the process while the bench holds the lease for an hour, so that no replica reconciles."""
        if self.name not in self.children.exits():
            self.children.stop(self.name)
        held = {"holderIdentity": "bench", "leaseDurationSeconds": 3600, "renewTime": _micro_time()}
        self.admin.merge(_LEASE, {"spec": held})
        self.start()

    def cpu_seconds(self) -> float:
        """The CPU time of the process since its start."""
        words = Path(f"/proc/{self._pids[-1]}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / _TICKS


@contextmanager
def api_world(directory: Path, units: int, *further_flags: str) -> Iterator[Served]:
    """A cluster with capacity for `units` units, for the length of the block; the process is not started yet."""
    nodes = tuple(_node(number) for number in range(units // _UNITS_OF_A_NODE + 1))
    try:
        with (
            LocalCluster(directory / "cluster", nodes=nodes) as cluster,
            ChildProcesses(directory / "processes") as children,
        ):
            access = cluster.access
            access.kubectl("apply", "--kustomize", str(_ROOT / "manifests" / "overlays" / "local"))
            access.kubectl("create", "namespace", BARE)
            token = access.kubectl("create", "token", "gpuruntime-manager", "--namespace", _SYSTEM, "--duration=8h")
            kubeconfig = directory / "manager.kubeconfig"
            kubeconfig.touch(mode=0o600)
            kubeconfig.write_text(json.dumps(access.kubeconfig_for(token.strip())))
            address = _free_address()
            # Requests are measured, and not the time that units have to stay up before they are Ready.
            settle = ("--min-ready-seconds", "0")
            flags = ("--http-addr", address, "--kubeconfig", str(kubeconfig), *settle, *further_flags)
            command = (sys.executable, "-P", "-m", "gpuruntime.processes.command", "manager", *flags)
            yield Served(access, f"http://{address}", children, command, directory / "manager.log")
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def stock_unit(number: int, spec_name: str) -> dict[str, Any]:
    """A unit with minimal requests."""
    return {
        "apiVersion": "runtime.lokiwager.io/v1alpha1",
        "kind": "GPUUnit",
        "metadata": {"name": f"unit-{number:05d}"},
        "spec": {"specName": spec_name, "cpu": "10m", "memory": "16Mi"},
    }


def _node(number: int) -> NodeShape:
    return NodeShape(f"gpu-{number}", gpus=_UNITS_OF_A_NODE, cpu="1000", memory="16Ti", pods=2 * _UNITS_OF_A_NODE)


def _free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return f"127.0.0.1:{probe.getsockname()[1]}"


def _micro_time() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
