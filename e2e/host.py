"""A supervisor of the product's replicas on this machine, with its own cluster; it restarts what exits, like a kubelet.

    python -m e2e.host DIRECTORY --owner PID

It runs until SIGTERM or the exit of its owner. DIRECTORY has the files for the stories: `access.json` of the cluster,
`installation.json` when all replicas are ready, and `replicas.json`, which is rewritten whenever a replica starts. Each
start of a replica has its own token, so that the audit log distinguishes them.
"""

import argparse
import base64
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from attrs import asdict, define, field, frozen

from e2e.names import CONTROLLERS, RUNTIME_APIS, SYSTEM
from gpuruntime.testing import ClusterAccess, LocalCluster, NodeShape
from gpuruntime.testing.processes.supervised import ChildProcesses
from gpuruntime.testing.published_files import publish
from tests.ports import free_address

__all__ = ["NODES", "PROGRAM", "REPLICAS", "Host", "Life", "main"]

PROGRAM: Final = "gpuruntime.processes.command"
NODES: Final = (
    NodeShape("gpu-1", gpus=500, cpu="500", memory="16Ti", pods=1000),
    NodeShape("gpu-2", gpus=8, product="NVIDIA-L40S"),
)
_ROOT: Final = Path(__file__).resolve().parents[1]
REPLICAS: Final = {CONTROLLERS: 2, RUNTIME_APIS: 3}
_TOKEN_SECONDS: Final = 8 * 3600
_START_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.1


@frozen
class Life:
    """One process of a replica, from start to exit; `credential` is the id of its token in the audit log."""

    replica: str
    number: int
    pid: int
    credential: str
    metrics: str


@define
class _Replica:
    """What stays the same across restarts of a replica."""

    kind: str
    name: str
    metrics: str
    config: Path
    kubeconfig: Path
    log: Path
    lives: list[Life] = field(factory=list)

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.metrics}/readyz", timeout=5):
                return True
        except (urllib.error.URLError, OSError):
            return False


class Host:
    """Runs the replicas of one installation, and the load balancer in front of them."""

    def __init__(self, directory: Path, access: ClusterAccess, children: ChildProcesses) -> None:
        self._directory = directory
        self._access = access
        self._children = children
        self._replicas: list[_Replica] = []

    def start(self) -> None:
        """Start everything; returns when all replicas are ready."""
        token = self._make_token()
        backends: list[str] = []
        for number in range(REPLICAS[CONTROLLERS]):
            # Most stories are about something else than the time that units have to stay up before they are Ready.
            self._add(CONTROLLERS, number, {"minReadySeconds": 0})
        for number in range(REPLICAS[RUNTIME_APIS]):
            served = free_address()
            auth = {"tokenFile": str(self._directory / "tokens")}
            replica = self._add(RUNTIME_APIS, number, {"httpAddr": served, "auth": auth})
            backends.append(f"{served}={replica.metrics}")
        balancer = free_address()
        command = (sys.executable, "-m", "e2e.load_balancer", balancer, *backends)
        self._children.start(
            "load-balancer", command, self._directory / "load-balancer.log", {"PYTHONPATH": str(_ROOT)}
        )
        for replica in self._replicas:
            self._start(replica)
        self._await_ready()
        _await_load_balancer(balancer)
        publish(self._directory / "installation.json", {"url": f"http://{balancer}", "token": token})

    def supervise(self) -> None:
        """Restart replicas that exit, until interrupted."""
        while True:
            ended = self._children.exits()
            for replica in self._replicas:
                if replica.name in ended:
                    self._start(replica)
            time.sleep(_POLL_SECONDS)

    def kill(self) -> None:
        """Kill all replicas at once."""
        for replica in self._replicas:
            if replica.lives and replica.name not in self._children.exits():
                self._children.signal(replica.name, signal.SIGKILL)

    def _add(self, kind: str, number: int, config: Mapping[str, Any]) -> _Replica:
        name = f"{kind}-{number + 1}"
        replica = _Replica(
            kind,
            name,
            free_address(),
            self._directory / f"{name}.yaml",
            self._directory / f"{name}.kubeconfig",
            self._directory / "logs" / f"{name}.log",
        )
        document = {
            "kubeconfig": str(replica.kubeconfig),
            "metricsBindAddress": replica.metrics,
            "logging": {"format": "json"},
            **config,
        }
        replica.config.write_text(json.dumps(document, indent=2))
        self._replicas.append(replica)
        return replica

    def _start(self, replica: _Replica) -> None:
        token = self._account_token(f"gpuruntime-{replica.kind}")
        replica.kubeconfig.touch(mode=0o600)
        replica.kubeconfig.write_text(json.dumps(self._access.kubeconfig_for(token, SYSTEM)))
        chosen = self._directory / f"{replica.kind}.program"
        program = chosen.read_text() if chosen.exists() else PROGRAM
        command = (sys.executable, "-m", program, replica.kind, "--config", str(replica.config))
        pid = self._children.start(replica.name, command, replica.log, {"PYTHONPATH": str(_ROOT)})
        number = len(replica.lives) + 1
        replica.lives.append(Life(replica.name, number, pid, _credential(token), replica.metrics))
        lives = [asdict(life) for known in self._replicas for life in known.lives]
        publish(self._directory / "replicas.json", lives)

    def _account_token(self, account: str) -> str:
        path = f"/api/v1/namespaces/{SYSTEM}/serviceaccounts/{account}/token"
        request = {"kind": "TokenRequest", "spec": {"expirationSeconds": _TOKEN_SECONDS}}
        answer = self._access.admin().create(path, {"apiVersion": "authentication.k8s.io/v1", **request})
        return str(answer["status"]["token"])

    def _make_token(self) -> str:
        """A token with the scope `operator`."""
        command = [sys.executable, "-m", PROGRAM, "token", "e2e", "operator"]
        flags = ["--file", str(self._directory / "tokens")]
        done = subprocess.run([*command, *flags], cwd=_ROOT, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def _await_ready(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        for replica in self._replicas:
            while not replica.is_ready():
                last = replica.log.read_text()[-4000:] if replica.log.exists() else "it wrote nothing"
                if replica.name in self._children.exits():
                    raise RuntimeError(f"{replica.name} exited before it was ready: {last}")
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{replica.name} was not ready after {_START_SECONDS:.0f} s: {last}")
                time.sleep(_POLL_SECONDS)  # there is no event to await


def _await_load_balancer(address: str) -> None:
    """Wait until the load balancer has probed a replica as ready and serves it."""
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            with urllib.request.urlopen(f"http://{address}/api/v1/health", timeout=5):
                return
        except urllib.error.HTTPError:
            return  # an error response is a response
        except OSError as error:
            if time.monotonic() > deadline:
                raise RuntimeError(f"the load balancer served nothing after {_START_SECONDS:.0f} s: {error}") from error
        time.sleep(_POLL_SECONDS)  # there is no event to await


def _start_volumes(directory: Path, access: ClusterAccess, children: ChildProcesses) -> None:
    """Give the fake nodes a default storage class."""
    files = directory / "volumes"
    files.mkdir()
    command = (sys.executable, "-m", "gpuruntime.testing.volumes.agent", str(access.kubeconfig.parent), str(files))
    children.start("volumes", command, files / "volumes.log", {"PYTHONPATH": str(_ROOT)})
    access.kubectl("wait", "--for=create", "storageclass/fake", f"--timeout={_START_SECONDS:.0f}s")


def _credential(token: str) -> str:
    payload = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return f"JTI={claims['jti']}"


def _interrupt(*_: object) -> None:
    """Interrupt the current work, but not the clean-up that follows."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def _end_with(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        select.select([os.pidfd_open(pid)], [], [])
    os.kill(os.getpid(), signal.SIGTERM)


def main(argv: list[str]) -> None:
    """Install the manifests, and run the replicas."""
    parser = argparse.ArgumentParser(prog="python -m e2e.host", description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--owner", type=int, required=True)
    arguments = parser.parse_args(argv)
    directory: Path = arguments.directory
    signal.signal(signal.SIGTERM, _interrupt)
    threading.Thread(target=_end_with, args=(arguments.owner,), daemon=True).start()
    with (
        contextlib.suppress(KeyboardInterrupt),
        LocalCluster(directory / "cluster", nodes=NODES, audit=True) as cluster,
        ChildProcesses(directory / "processes") as children,
    ):
        _start_volumes(directory, cluster.access, children)
        cluster.access.kubectl("apply", "--kustomize", str(_ROOT / "manifests" / "overlays" / "local"))
        host = Host(directory, cluster.access, children)
        try:
            host.start()
            host.supervise()
        finally:
            host.kill()


if __name__ == "__main__":
    main(sys.argv[1:])
