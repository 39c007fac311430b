"""An installation in somebody else's cluster, kind's say: the replicas are pods, and the API is reached through them.

The cluster needs the image of the overlay: `hack/kind` builds and loads it. Fake GPU nodes are played from here for the
time of the stories.
"""

import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from attrs import frozen

from e2e.caller import Caller
from e2e.eyes import Eyes, eventually
from e2e.host import NODES, REPLICAS
from e2e.installation import Installation, Kubectl, Replica
from e2e.names import CONTROLLERS, GPUS, LEASE, RUNTIME_APIS, SYSTEM
from gpuruntime.testing import FakeNodes, assets

__all__ = ["PodReplicas", "remote_installation"]

_ROOT: Final = Path(__file__).resolve().parents[1]
_PATIENCE: Final = "--timeout=300s"
_FORWARDED: Final = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+)")


@frozen
class _Terminal:
    kubeconfig: Path
    binary: Path

    def __call__(self, *arguments: str) -> str:
        command = [str(self.binary), "--kubeconfig", str(self.kubeconfig), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr.strip()}"
        return done.stdout


@frozen
class PodReplicas:
    """Pods that their Deployments replace when they end."""

    kubectl: Kubectl

    def living(self, process: str) -> Mapping[str, Replica]:
        pods = json.loads(self.kubectl("get", "pods", *_of(process), "--output", "json"))["items"]
        alive = [pod["metadata"] for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        return {pod["name"]: Replica(pod["name"], pod["uid"]) for pod in alive}

    def leader(self) -> Replica:
        def leading() -> Replica | None:
            path = ("get", "lease", LEASE, "--namespace", SYSTEM, "--output", "jsonpath={.spec.holderIdentity}")
            pod, _, _ = self.kubectl(*path).rpartition("_")
            return self.living(CONTROLLERS).get(pod)

        return eventually(leading, "a controller manager that leads")

    def kill(self, replica: Replica) -> None:
        flags = ("--grace-period=0", "--force", "--wait=false")
        self.kubectl("delete", "pod", replica.name, "--namespace", SYSTEM, *flags)

    def end(self, replica: Replica) -> None:
        self.kubectl("delete", "pod", replica.name, "--namespace", SYSTEM, "--wait=false")

    def roll(self, process: str) -> None:
        self.kubectl("rollout", "restart", f"deployment/gpuruntime-{process}", "--namespace", SYSTEM)
        self._rolled_out(process)

    def settle(self) -> None:
        for process in (CONTROLLERS, RUNTIME_APIS):
            self._rolled_out(process)
        self.leader()

    def logs(self) -> Mapping[str, str]:
        return {
            process: self.kubectl("logs", *_of(process), "--tail=40", "--prefix")
            for process in (CONTROLLERS, RUNTIME_APIS)
        }

    def _rolled_out(self, process: str) -> None:
        self.kubectl("rollout", "status", f"deployment/gpuruntime-{process}", "--namespace", SYSTEM, _PATIENCE)


def _of(process: str) -> tuple[str, ...]:
    return ("--namespace", SYSTEM, "--selector", f"app.kubernetes.io/name=gpuruntime-{process}")


@contextmanager
def remote_installation(kubeconfig: Path, directory: Path) -> Iterator[Installation]:
    """The product, installed into the cluster that a kubeconfig leads to; it stays there."""
    found = shutil.which("kubectl")
    binaries = Path(found).parent if found else assets.ensure()
    kubectl = _Terminal(kubeconfig, binaries / "kubectl")
    manifests = _ROOT / "manifests" / "overlays" / "dev"
    replicas = PodReplicas(kubectl)
    with FakeNodes(directory / "kwok", kubeconfig, NODES, assets.ensure()):
        # No process of the product would run there.
        for node in NODES:
            kubectl("taint", "nodes", node.name, f"{GPUS}:NoSchedule")
        kubectl("apply", "--kustomize", str(manifests))
        for process, number in REPLICAS.items():
            name = f"deployment/gpuruntime-{process}"
            kubectl("scale", name, "--namespace", SYSTEM, f"--replicas={number}")
        replicas.settle()
        token = kubectl("create", "token", "gpuruntime-developer", "--namespace", SYSTEM, "--audience=gpuruntime")
        with _forwarded(kubectl) as url:
            yield Installation(Caller(url, token.strip()), Eyes(kubeconfig), replicas, kubectl, manifests, directory)


@contextmanager
def _forwarded(kubectl: _Terminal) -> Iterator[str]:
    """The address of the API on this machine. A forward ends with the pod that it leads to, and is then made anew."""
    command = [str(kubectl.binary), "--kubeconfig", str(kubectl.kubeconfig), "--namespace", SYSTEM]
    forward = [*command, "port-forward", "service/gpuruntime-runtime-api"]
    running = subprocess.Popen([*forward, ":8080"], stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    line = running.stdout.readline()
    match = _FORWARDED.match(line)
    assert match is not None, f"kubectl port-forward said: {line!r}"
    port = match[1]
    ending = threading.Event()
    current = [running]

    def keep() -> None:
        while not ending.is_set():
            current[0].wait()
            if not ending.is_set():
                current[0] = subprocess.Popen([*forward, f"{port}:8080"], stdout=subprocess.DEVNULL, text=True)

    keeper = threading.Thread(target=keep, daemon=True)
    keeper.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        ending.set()
        current[0].terminate()
        keeper.join()
        running.stdout.close()
