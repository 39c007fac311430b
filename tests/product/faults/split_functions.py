"""The whole path of invocations as separate processes that can be killed: two of the API, two activators, one each of
the controller manager, the result store, the load balancer and the local workers, beside a real NATS server.
"""

import json
import os
import signal
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from attrs import field, frozen

from gpuruntime.api.invocations import ACTIVATOR_USER, API_USER, RESULT_STORE_USER
from gpuruntime.testing import LocalCluster, NodeShape
from gpuruntime.testing.local_workers import LOCAL_SIDECAR
from gpuruntime.testing.nats import NatsServer
from gpuruntime.testing.processes.supervised import ChildProcesses
from tests.ports import free_address

__all__ = ["ACTIVATORS", "APIS", "COUNT_FILE", "FUNCTION", "NAMESPACE", "RESULT_STORE", "SplitFunctions", "functions"]

NAMESPACE: Final = "runtime-instance"
APIS: Final = ("api-1", "api-2")
ACTIVATORS: Final = ("activator-1", "activator-2")
RESULT_STORE: Final = "result-store"
COUNT_FILE: Final = "COUNT_FILE"
FUNCTION: Final = """\
import os


def run(payload, context):
    with open(os.environ["COUNT_FILE"], "a") as executions:
        executions.write(f"{context.id}\\n")
    context.cancel_event.wait(payload["seconds"])
    return {"number": payload["number"]}
"""
"""Writes a line when it begins, so that executions can be counted, and takes its time."""

_ROOT: Final = Path(__file__).resolve().parents[3]
_COMMAND: Final = (sys.executable, "-m", "gpuruntime.processes.command")
_PATIENCE_SECONDS: Final = 180.0
_SIDECAR: Final = ("gpuruntime.processes.command", "sidecar")
_PROGRAM: Final = ("gpuruntime.framework",)


@frozen
class _Process:
    """A process that keeps its addresses across restarts. `probe` is the URL of its readiness."""

    command: tuple[str, ...]
    log: Path
    url: str = ""
    probe: str = ""


@frozen
class SplitFunctions:
    """The processes, and what they share."""

    cluster: LocalCluster
    nats: NatsServer
    directory: Path
    children: ChildProcesses = field(repr=False)
    processes: dict[str, _Process] = field(factory=dict, repr=False)

    @property
    def urls(self) -> tuple[str, ...]:
        """The URLs of the API."""
        return tuple(self.processes[name].url for name in APIS)

    def deploy(self, name: str, *, workers: int, concurrency: int, **invocation: Any) -> None:
        """Create a function, and wait until its workers are ready."""
        spec = {
            "specName": "g1.0",
            "image": "functions:dev",
            "template": {
                "command": ["python", "-m", "gpuruntime.framework", "counted.py:run"],
                "envs": [{"name": COUNT_FILE, "value": str(self.directory / "executions")}],
            },
            "scaling": {"minWorkers": workers, "maxWorkers": workers, "concurrency": concurrency},
            "invocation": {"timeoutSeconds": 60, **invocation},
        }
        function = {
            "apiVersion": "runtime.lokiwager.io/v1alpha1",
            "kind": "GPUFunction",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": spec,
        }
        kubectl = self.cluster.access.kubectl
        kubectl("apply", "--filename", "-", input_text=json.dumps(function))
        wait = ("wait", f"gpufunction/{name}", "--namespace", NAMESPACE, f"--timeout={_PATIENCE_SECONDS:.0f}s")
        kubectl(*wait, "--for=condition=Ready")
        kubectl(*wait, f"--for=jsonpath={{.status.workers.ready}}={workers}")

    def executions(self) -> list[str]:
        """The IDs of all runs that began."""
        file = self.directory / "executions"
        return file.read_text().split() if file.exists() else []

    def kill(self, name: str) -> None:
        """End a process with SIGKILL."""
        self.children.signal(name, signal.SIGKILL)
        self.children.stop(name)

    def start(self, name: str) -> None:
        """Start a process; returns when it is ready."""
        process = self.processes[name]
        self.children.start(name, process.command, process.log, {"PYTHONPATH": str(_ROOT)})
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while process.probe and not _is_ready(process.probe):
            assert name not in self.children.exits(), process.log.read_text()[-3000:]
            assert time.monotonic() < deadline, f"{name} is not ready: {process.log.read_text()[-3000:]}"
            time.sleep(0.1)  # there is no event to await

    def restart(self, name: str) -> None:
        """Kill a process and start it again."""
        self.kill(name)
        self.start(name)

    def kill_a_sidecar(self) -> None:
        """End the sidecar of one worker with SIGKILL; the local workers start it again."""
        os.kill(self._found(_SIDECAR)[0], signal.SIGKILL)

    def kill_a_program(self) -> None:
        """End the program of one worker with SIGKILL; the local workers start it again."""
        os.kill(self._found(_PROGRAM)[0], signal.SIGKILL)

    def _found(self, words: tuple[str, ...]) -> list[int]:
        """The processes of workers of this world: they have the directory, or the balancer, in their variables."""
        own = {str(self.directory / "executions").encode(), self.processes["balancer"].url.encode()}
        found = []
        for process in Path("/proc").iterdir():
            try:
                command = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
                environment = (process / "environ").read_bytes()
            except OSError:
                continue
            if all(word in command for word in words) and any(mark in environment for mark in own):
                found.append(int(process.name))
        assert found, f"no process runs {' '.join(words)}"
        return found


@contextmanager
def functions(directory: Path) -> Iterator[SplitFunctions]:
    """All processes, ready to serve, for the length of the block."""
    sources = directory / "functions"
    sources.mkdir()
    (sources / "counted.py").write_text(FUNCTION)
    with (
        LocalCluster(directory / "cluster", nodes=(NodeShape("gpu-1", gpus=8),)) as cluster,
        NatsServer(directory / "nats") as nats,
        ChildProcesses(directory / "processes") as children,
    ):
        cluster.access.kubectl("apply", "--kustomize", str(_ROOT / "manifests" / "overlays" / "local"))
        world = SplitFunctions(cluster, nats, directory, children)
        world.processes.update(_processes(world, sources))
        for name in world.processes:
            world.start(name)
        yield world


def _processes(world: SplitFunctions, sources: Path) -> Iterator[tuple[str, _Process]]:
    balancer, store = free_address(), free_address()
    workers = {"sidecarImage": LOCAL_SIDECAR, "activatorURL": f"ws://{balancer}"}
    yield _of(world, "controller-manager", "controller-manager", {"serverless": workers, "minReadySeconds": 0})
    database = {"database": {"file": str(world.directory / "results.db")}}
    yield _of(
        world, RESULT_STORE, "result-store", {"httpAddr": store, **database, **_bus(world, RESULT_STORE_USER.name)}
    )
    activators = []
    for name in ACTIVATORS:
        address = free_address()
        process = _of(world, name, "activator", {"httpAddr": address, **_bus(world, ACTIVATOR_USER.name)})
        activators.append(f"{address}={process[1].probe.removeprefix('http://').removesuffix('/readyz')}")
        yield process
    for name in APIS:
        address = free_address()
        config = {"httpAddr": address, "resultStore": {"url": f"http://{store}"}, **_bus(world, API_USER.name)}
        yield _of(world, name, "runtime-api", config, f"http://{address}")
    balance = (sys.executable, "-m", "e2e.load_balancer", balancer, *activators)
    yield "balancer", _Process(balance, world.directory / "balancer.log", f"ws://{balancer}")
    agent = (sys.executable, "-m", "gpuruntime.testing.local_workers.agent")
    paths = (world.directory / "cluster", world.directory / "workers", sources)
    (world.directory / "workers").mkdir()
    yield "workers", _Process((*agent, *map(str, paths)), world.directory / "workers.log")


def _of(
    world: SplitFunctions, name: str, command: str, config: Mapping[str, Any], url: str = ""
) -> tuple[str, _Process]:
    metrics = free_address()
    file = world.directory / f"{name}.json"
    file.write_text(json.dumps({"metricsBindAddress": metrics, **config}))
    flags = ("--config", str(file), "--kubeconfig", str(world.cluster.access.kubeconfig))
    log = world.directory / f"{name}.log"
    return name, _Process((*_COMMAND, command, *flags), log, url, f"http://{metrics}/readyz")


def _bus(world: SplitFunctions, user: str) -> dict[str, Any]:
    files = world.nats.files
    credentials = {"userFile": str(files.user_file(user)), "passwordFile": str(files.password_file(user))}
    return {"serverless": {"nats": {"urls": [world.nats.url], **credentials}}}


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):  # noqa: S310 - an address of this machine
            return True
    except (urllib.error.URLError, OSError):
        return False
