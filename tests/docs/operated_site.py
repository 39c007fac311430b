"""A cluster for docs/operating.md: pods are simulated, and the processes run on the host."""

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from attrs import field, frozen

from gpuruntime.testing import ClusterAccess, LocalCluster
from gpuruntime.testing.processes.supervised import ChildProcesses
from tests.manifests.rendered import MANIFESTS, rendered
from tests.ports import free_port
from tests.programs import require_program

__all__ = ["OperatedSite", "operated_site"]

_MONITORING: Final = MANIFESTS.parent / "tests" / "manifests" / "upstream"
_SYSTEM: Final = "gpuruntime-system"
_WRITTEN: Final = "http://127.0.0.1:8080"


@frozen
class OperatedSite:
    """A shell in a clone, and a cluster with the kinds of the Prometheus operator and nothing of ours."""

    access: ClusterAccess
    clone: Path
    children: ChildProcesses = field(repr=False)
    port: int

    def type(self, commands: str) -> str:
        """Run the commands of the page and return their output; only the port of the API is replaced."""
        environment = {
            **os.environ,
            "KUBECONFIG": str(self.access.kubeconfig),
            "PATH": os.pathsep.join([str(self.access.binaries), str(Path(sys.executable).parent), os.environ["PATH"]]),
        }
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands.replace(_WRITTEN, f"http://127.0.0.1:{self.port}")],
            cwd=self.clone,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{commands}\n{done.stdout}{done.stderr}"
        return done.stdout

    def start_processes(self, overlay: Path) -> None:
        """Start the processes of an overlay's pods; returns when both are ready."""
        for process in ("controller-manager", "runtime-api"):
            token = self.access.kubectl("create", "token", f"gpuruntime-{process}", "-n", _SYSTEM, "--duration=1h")
            kubeconfig = self.clone / f"{process}.kubeconfig"
            kubeconfig.write_text(json.dumps(self.access.kubeconfig_for(token.strip())))
            config = self.clone / f"{process}.yaml"
            config.write_text(rendered(overlay).config(process))
            self._start(process, ["--config", str(config), "--kubeconfig", str(kubeconfig)])

    def _start(self, process: str, flags: list[str]) -> None:
        metrics = free_port()
        prefix = f"GPURUNTIME_{process.replace('-', '_').upper()}"
        addresses = {f"{prefix}_METRICS_BIND_ADDRESS": f"127.0.0.1:{metrics}"}
        if process == "runtime-api":
            addresses[f"{prefix}_HTTP_ADDR"] = f"127.0.0.1:{self.port}"
        log = self.clone / f"{process}.log"
        command = [sys.executable, "-m", "gpuruntime.processes.command", process, *flags]
        self.children.start(process, command, log, {"PYTHONPATH": str(MANIFESTS.parent), **addresses})
        while not _is_ready(f"http://127.0.0.1:{metrics}/readyz"):
            assert process not in self.children.exits(), log.read_text()[-2000:]
            time.sleep(0.1)  # a starting server announces nothing that could be awaited


@contextmanager
def operated_site(directory: Path) -> Iterator[OperatedSite]:
    """A site for the length of the block."""
    require_program("curl")
    require_program("jq")
    clone = directory / "clone"
    shutil.copytree(MANIFESTS, clone / "manifests")
    with LocalCluster(directory / "cluster") as cluster, ChildProcesses(directory / "processes") as children:
        cluster.access.kubectl("create", "--filename", str(_MONITORING))
        yield OperatedSite(cluster.access, clone, children, free_port())


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):  # noqa: S310 - an http address
            return True
    except OSError:
        return False
