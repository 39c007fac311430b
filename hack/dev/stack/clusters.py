"""The clusters of the stack: a local one with or without a real node, a kind cluster in Docker, or an existing one."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import evolve, frozen

from gpuruntime.testing import FakeNodes, LocalCluster, NodeShape, RealNode, assets, require_real_node
from gpuruntime.testing.cluster.nodes import PRODUCTS
from gpuruntime.testing.images import ImageStore
from gpuruntime.testing.local_workers import LOCAL_SIDECAR
from gpuruntime.testing.processes.supervised import ChildProcesses
from gpuruntime.testing.volumes.host_path import HOST_PATH_CLASS
from hack.dev.checkout_image import CHECKOUT_IMAGE

__all__ = [
    "DEFAULT_CLASS",
    "REAL_NODE",
    "VOLUMES",
    "WORKERS",
    "Cluster",
    "StackError",
    "WorkerPlace",
    "delete_leftover_kind",
    "given",
    "kind",
    "local",
    "local_with_real_node",
]

REAL_NODE = "real-node"
VOLUMES = "volumes"
WORKERS = "workers"
_LOOPBACK = "127.0.0.1"
_FAKE_NODE = "gpuruntime.local/fake-node"
_REAL_GPUS = 4
_REAL_LABELS = {"nvidia.com/gpu.product": PRODUCTS[0]}
# What the samples and pages use. All names of one base mean the program of this machine, whatever their version says.
_IMAGES = {"busybox": ("busybox:1.36",), "python": ("python:3.11", "python:3.12", "python:3.13")}
_PATIENCE_SECONDS = 60.0
_KIND_KUBECONFIG = "kind.kubeconfig"
_KUBECTL_CACHE = "kubectl-cache"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class=true"


class StackError(Exception):
    """The stack cannot start; the message says what to do."""


@frozen
class WorkerPlace:
    """Where the workers of functions run: the image of their sidecars, and the address of this machine for them."""

    sidecar_image: str
    host: str


@frozen
class Cluster:
    """Administrative access to a cluster. `images` is the directory of its images, if we make them.

    `workers` is None where workers of functions could not reach this machine.
    """

    kubeconfig: Path
    binaries: Path
    kubectl_cache: Path
    images: Path | None = None
    workers: WorkerPlace | None = None

    def kubectl(self, *arguments: str) -> str:
        command = [str(self.binaries / "kubectl"), "--kubeconfig", str(self.kubeconfig), *arguments]
        environment = {**os.environ, "KUBECACHEDIR": str(self.kubectl_cache)}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        if done.returncode != 0:
            raise StackError(f"kubectl {' '.join(arguments)} failed: {done.stderr.strip()}")
        return done.stdout


@contextmanager
def local(directory: Path, nodes: tuple[NodeShape, ...], functions: Path, *, audit: bool) -> Iterator[Cluster]:
    """Start a local control plane for the length of the block.

    Its fake nodes have a default storage class, and workers that run functions of the directory `functions`.
    """
    with (
        LocalCluster(directory / "cluster", nodes=nodes, audit=audit, lock_timeout=_PATIENCE_SECONDS) as started,
        ChildProcesses(directory / VOLUMES, _PATIENCE_SECONDS) as volumes,
        ChildProcesses(directory / WORKERS, _PATIENCE_SECONDS) as workers,
    ):
        access = started.access
        where = str(access.kubeconfig.parent)
        for children, name, module, arguments in (
            (volumes, VOLUMES, "gpuruntime.testing.volumes.agent", ()),
            (workers, WORKERS, "gpuruntime.testing.local_workers.agent", (str(functions),)),
        ):
            command = [sys.executable, "-m", module, where, str(directory / name), *arguments]
            children.start(name, command, directory / name / f"{name}.log")
        place = WorkerPlace(LOCAL_SIDECAR, _LOOPBACK)
        cluster = Cluster(access.kubeconfig, access.binaries, access.kubectl_cache, workers=place)
        cluster.kubectl("wait", "--for=create", "storageclass/fake", f"--timeout={_PATIENCE_SECONDS:.0f}s")
        yield cluster


@contextmanager
def local_with_real_node(directory: Path, nodes: tuple[NodeShape, ...], *, audit: bool) -> Iterator[Cluster]:
    """Start a local control plane and a node that runs containers for the length of the block.

    Pods run on that node unless they tolerate the taint of the fake ones. The default storage class is of that node.
    """
    require_real_node()
    tainted = tuple(evolve(node, taints={**node.taints, _FAKE_NODE: "NoSchedule"}) for node in nodes)
    with LocalCluster(directory / "cluster", nodes=tainted, audit=audit, lock_timeout=_PATIENCE_SECONDS) as cluster:
        access = cluster.access
        # The images stay, because making the one of Python takes seconds.
        images = directory / "images"
        with RealNode(
            access, directory / REAL_NODE, taints={}, gpus=_REAL_GPUS, labels=_REAL_LABELS, images=images
        ) as node:
            for base, names in _IMAGES.items():
                for name in names:
                    ImageStore(images).add(name, base=base)
            # Pods reach the manager of this machine at the address of its link to the node.
            place = WorkerPlace(CHECKOUT_IMAGE, node.layout.addresses.machine)
            started = Cluster(access.kubeconfig, access.binaries, access.kubectl_cache, images, place)
            started.kubectl("annotate", "storageclass", HOST_PATH_CLASS, DEFAULT_CLASS)
            yield started


@contextmanager
def given(kubeconfig: Path, directory: Path) -> Iterator[Cluster]:
    """Use the cluster of a kubeconfig; only what we install in it is ours."""
    if not kubeconfig.is_file():
        raise StackError(f"--kubeconfig {kubeconfig}: there is no such file")
    cluster = Cluster(kubeconfig, _kubectl_directory(), directory / _KUBECTL_CACHE)
    cluster.kubectl("version", "--request-timeout=10s")
    yield cluster


@contextmanager
def kind(directory: Path, nodes: tuple[NodeShape, ...]) -> Iterator[Cluster]:
    """Create a kind cluster for the length of the block; kwok on this machine simulates its GPU nodes."""
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
            raise StackError(f"{' '.join(command)} failed; see its output above")
        binaries = assets.ensure()
        with FakeNodes(directory / "kwok", kubeconfig, nodes, binaries):
            yield Cluster(kubeconfig, binaries, directory / _KUBECTL_CACHE)
    finally:
        _delete_kind(directory)


def delete_leftover_kind(directory: Path) -> None:
    """Delete the kind cluster of a stack whose owner was killed."""
    if (directory / _KIND_KUBECONFIG).exists():
        _delete_kind(directory)


def _delete_kind(directory: Path) -> None:
    subprocess.run(["kind", "delete", "cluster", "--name", kind_name(directory)], check=False)
    (directory / _KIND_KUBECONFIG).unlink(missing_ok=True)


def kind_name(directory: Path) -> str:
    """The name of this checkout's kind cluster; two checkouts never share one."""
    return f"gpuruntime-{hashlib.sha256(str(directory).encode()).hexdigest()[:8]}"


def _kubectl_directory() -> Path:
    on_path = shutil.which("kubectl")
    return Path(on_path).parent if on_path else assets.ensure()
