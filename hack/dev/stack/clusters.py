"""The three ways to a cluster: one that we start here, one that kind makes in Docker, one that is there already."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from gpuruntime.testing import FakeNodes, LocalCluster, NodeShape, assets

__all__ = ["Cluster", "StackError", "delete_leftover_kind", "given", "kind", "local"]

_PATIENCE_SECONDS = 60.0
_KIND_KUBECONFIG = "kind.kubeconfig"
_KUBECTL_CACHE = "kubectl-cache"


class StackError(Exception):
    """The stack cannot be brought up; the message says what to do."""


@frozen
class Cluster:
    """An administrator's way into a cluster."""

    kubeconfig: Path
    binaries: Path
    kubectl_cache: Path

    def kubectl(self, *arguments: str) -> str:
        command = [str(self.binaries / "kubectl"), "--kubeconfig", str(self.kubeconfig), *arguments]
        environment = {**os.environ, "KUBECACHEDIR": str(self.kubectl_cache)}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        if done.returncode != 0:
            raise StackError(f"kubectl {' '.join(arguments)} failed: {done.stderr.strip()}")
        return done.stdout


@contextmanager
def local(directory: Path, nodes: tuple[NodeShape, ...], *, audit: bool) -> Iterator[Cluster]:
    """Start our own control plane; it ends with the block."""
    with LocalCluster(directory, nodes=nodes, audit=audit, lock_timeout=_PATIENCE_SECONDS) as cluster:
        yield Cluster(cluster.access.kubeconfig, cluster.access.binaries, cluster.access.kubectl_cache)


@contextmanager
def given(kubeconfig: Path, directory: Path) -> Iterator[Cluster]:
    """Use the cluster that a kubeconfig leads to; nothing of it is ours but what we install."""
    if not kubeconfig.is_file():
        raise StackError(f"--kubeconfig {kubeconfig}: there is no such file")
    cluster = Cluster(kubeconfig, _kubectl_directory(), directory / _KUBECTL_CACHE)
    cluster.kubectl("version", "--request-timeout=10s")
    yield cluster


@contextmanager
def kind(directory: Path, nodes: tuple[NodeShape, ...]) -> Iterator[Cluster]:
    """Make a kind cluster, with kwok on this machine playing the GPU nodes in it; both end with the block."""
    for program, remedy in (
        ("docker", "install Docker"),
        ("kind", "install kind (go install sigs.k8s.io/kind@latest)"),
    ):
        if shutil.which(program) is None:
            raise StackError(f"--kind needs {program}, which is not on PATH: {remedy}, or leave --kind out")
    if subprocess.run(["docker", "info"], capture_output=True, check=False).returncode != 0:
        raise StackError("--kind needs a running Docker engine and `docker info` fails: start it, or leave --kind out")
    name = kind_name(directory)
    kubeconfig = directory / _KIND_KUBECONFIG
    try:
        command = ["kind", "create", "cluster", "--name", name, "--kubeconfig", str(kubeconfig), "--wait", "120s"]
        if subprocess.run(command, check=False).returncode != 0:
            raise StackError(f"{' '.join(command)} failed; its words are above")
        binaries = assets.ensure()
        with FakeNodes(directory / "kwok", kubeconfig, nodes, binaries):
            yield Cluster(kubeconfig, binaries, directory / _KUBECTL_CACHE)
    finally:
        _delete_kind(directory)


def delete_leftover_kind(directory: Path) -> None:
    """End the kind cluster of a stack whose owner was killed."""
    if (directory / _KIND_KUBECONFIG).exists():
        _delete_kind(directory)


def _delete_kind(directory: Path) -> None:
    subprocess.run(["kind", "delete", "cluster", "--name", kind_name(directory)], check=False)
    (directory / _KIND_KUBECONFIG).unlink(missing_ok=True)


def kind_name(directory: Path) -> str:
    """A name for this checkout's cluster: two checkouts never share one."""
    return f"gpuruntime-{hashlib.sha256(str(directory).encode()).hexdigest()[:8]}"


def _kubectl_directory() -> Path:
    on_path = shutil.which("kubectl")
    return Path(on_path).parent if on_path else assets.ensure()
