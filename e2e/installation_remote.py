"""An installation in an existing cluster, such as kind: the replicas are pods, and the API is reached by port-forward.

The cluster needs the image of the overlay: `hack/kind` builds and loads it. GPU nodes are simulated from this machine
while the stories run. An existing installation is used as it is: none of its pods is restarted.
"""

import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from attrs import evolve, frozen

from e2e.audit_trail import AuditTrail
from e2e.caller import Caller
from e2e.cluster_view import ClusterView, eventually
from e2e.host import NODES, REPLICAS
from e2e.installation import Installation, Kubectl, Replica
from e2e.names import CONTROLLERS, GPUS, LEASE, RUNTIME_APIS, SYSTEM
from e2e.overlays import write_overlay
from e2e.phases import Phases
from gpuruntime.testing import FakeNodes, assets

__all__ = ["PodReplicas", "remote_installation"]

_ROOT: Final = Path(__file__).resolve().parents[1]
_PATIENCE_SECONDS: Final = 300.0
_FORWARDED: Final = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+)")


@frozen
class _Terminal:
    kubeconfig: Path
    binary: Path
    cache: Path

    def __call__(self, *arguments: str) -> str:
        command = [str(self.binary), "--kubeconfig", str(self.kubeconfig), *arguments]
        environment = {**os.environ, "KUBECACHEDIR": str(self.cache)}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr.strip()}"
        return done.stdout


@frozen
class PodReplicas:
    """Pods that their Deployments replace."""

    kubectl: Kubectl
    cluster: ClusterView

    def living(self, process: str) -> Mapping[str, Replica]:
        pods = self.cluster.core.list_namespaced_pod(SYSTEM, label_selector=_selector(process)).items
        alive = [pod.metadata for pod in pods if pod.metadata.deletion_timestamp is None]
        return {pod.name: Replica(pod.name, pod.uid, pod.uid) for pod in alive}

    def leader(self) -> Replica:
        def leading() -> Replica | None:
            found = self.cluster.leases.list_namespaced_lease(SYSTEM, field_selector=f"metadata.name={LEASE}").items
            pod = (found[0].spec.holder_identity or "").rpartition("_")[0] if found else ""
            return self.living(CONTROLLERS).get(pod)

        return eventually(leading, "a controller manager that leads")

    def kill(self, replica: Replica) -> None:
        flags = ("--grace-period=0", "--force", "--wait=false")
        self.kubectl("delete", "pod", replica.name, "--namespace", SYSTEM, *flags)

    def end(self, replica: Replica) -> None:
        self.kubectl("delete", "pod", replica.name, "--namespace", SYSTEM, "--wait=false")

    def roll(self, process: str) -> None:
        self.kubectl("rollout", "restart", f"deployment/gpuruntime-{process}", "--namespace", SYSTEM)
        self.await_rollout(process)

    def wait_until_ready(self) -> None:
        for process in (CONTROLLERS, RUNTIME_APIS):
            self.await_rollout(process)
        self.leader()

    def logs(self) -> Mapping[str, str]:
        return {process: self._last_words(process) for process in (CONTROLLERS, RUNTIME_APIS)}

    def await_rollout(self, process: str) -> None:
        """Wait until every replica of a process is ready and has the current pod template."""
        name = f"gpuruntime-{process}"
        what = f"all replicas of deployment {name}, ready: `kubectl get pods -n {SYSTEM}` shows why not"
        read = partial(self.cluster.apps.read_namespaced_deployment, name, SYSTEM)
        eventually(lambda: _is_complete(read()), what, _PATIENCE_SECONDS)

    def _last_words(self, process: str) -> str:
        flags = ("--namespace", SYSTEM, "--selector", _selector(process), "--tail=40", "--prefix")
        try:
            return self.kubectl("logs", *flags)
        except AssertionError as error:
            # The log is shown with a failed story, and must not hide its failure.
            return str(error)


def _selector(process: str) -> str:
    return f"app.kubernetes.io/name=gpuruntime-{process}"


def _is_complete(deployment: Any) -> bool:
    """Whether the rollout is complete, as `kubectl rollout status` defines it."""
    status, wanted = deployment.status, deployment.spec.replicas
    counts = (status.replicas, status.updated_replicas, status.available_replicas)
    return status.observed_generation == deployment.metadata.generation and counts == (wanted, wanted, wanted)


@contextmanager
def remote_installation(
    kubeconfig: Path,
    directory: Path,
    say: Callable[[str], None] = print,
    *,
    gateway: str = f"{SYSTEM}/service/gpuruntime-runtime-api",
    audit_log: Path | None = None,
    overlay: str | None = None,
) -> Iterator[Installation]:
    """Install the product in the cluster of a kubeconfig; it stays there. The API is reached through `gateway`.

    The manifests come first: the pods take longest to start, and everything else is prepared meanwhile.
    """
    found = shutil.which("kubectl")
    binaries = Path(found).parent if found else assets.ensure()
    kubectl = _Terminal(kubeconfig, binaries / "kubectl", directory / "kubectl-cache")
    chosen, phases = write_overlay(directory / "overlay", overlay), Phases(say)
    # No process of the product could run on them.
    nodes = tuple(evolve(node, taints={GPUS: "NoSchedule"}) for node in NODES)
    with ExitStack() as stack:
        with phases.phase("manifests"):
            kubectl("apply", "--kustomize", str(chosen))
        with phases.phase("fake nodes"):
            stack.enter_context(FakeNodes(directory / "kwok", kubeconfig, nodes, assets.ensure()))
        with phases.phase("client"):
            cluster = ClusterView(kubeconfig)
        replicas = PodReplicas(kubectl, cluster)
        with phases.phase("rollout"):
            for process in REPLICAS:
                replicas.await_rollout(process)
        with phases.phase("leader"):
            replicas.leader()
        with phases.phase("access"):
            account = ("gpuruntime-developer", "--namespace", SYSTEM)
            token = kubectl("create", "token", *account, "--audience=gpuruntime").strip()
            url = stack.enter_context(_forwarded(kubectl, gateway))
        trail = None if audit_log is None else AuditTrail(audit_log)
        yield Installation(Caller(url, token), cluster, replicas, kubectl, chosen, directory, trail)


@contextmanager
def _forwarded(kubectl: _Terminal, gateway: str) -> Iterator[str]:
    """The local address of the API. A port-forward ends with its pod, and is then restarted."""
    namespace, _, target = gateway.partition("/")
    command = [str(kubectl.binary), "--kubeconfig", str(kubectl.kubeconfig), "--namespace", namespace]
    forward = [*command, "port-forward", target]
    running = subprocess.Popen([*forward, ":8080"], stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    line = running.stdout.readline()
    match = _FORWARDED.match(line)
    if match is None:
        running.kill()
        running.communicate()
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
