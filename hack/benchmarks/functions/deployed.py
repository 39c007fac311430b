"""The whole path of invocations as in production: each part is a process of its own, so that each has a CPU figure.

One each of the API, the activator, the result store and the controller manager, beside a NATS server that syncs always
and the workers of a local cluster. `API_WITHOUT_PUBLISH` is a second API that acknowledges without NATS.
"""

import asyncio
import json
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from attrs import field, frozen

from gpuruntime.api.invocations import ACTIVATOR_USER, API_USER, RESULT_STORE_USER
from gpuruntime.testing import LocalCluster, NodeShape
from gpuruntime.testing.local_workers import LOCAL_SIDECAR
from gpuruntime.testing.nats import NatsServer
from gpuruntime.testing.processes.free_port import free_port
from gpuruntime.testing.processes.supervised import ChildProcesses
from hack.benchmarks.creating import ObjectsError

__all__ = ["ACTIVATOR", "API", "API_WITHOUT_PUBLISH", "NAMESPACE", "Deployed", "deployed"]

API: Final = "api"
API_WITHOUT_PUBLISH: Final = "api-without-publish"
ACTIVATOR: Final = "activator"
NAMESPACE: Final = "runtime-instance"
_ROOT: Final = Path(__file__).resolve().parents[3]
_PRODUCT: Final = "gpuruntime.processes.command"
_START_SECONDS: Final = 180.0
_ECHO: Final = "def echo(payload):\n    return payload\n"


@frozen
class _Process:
    command: tuple[str, ...]
    address: str = ""
    probe: str = ""
    """The URL of its readiness; "" if it has none."""


@frozen
class Deployed:
    """The processes that serve."""

    cluster: LocalCluster
    nats: NatsServer
    directory: Path
    children: ChildProcesses = field(repr=False)
    processes: dict[str, _Process] = field(factory=dict, repr=False)
    pids: dict[str, int] = field(factory=dict)

    def address(self, name: str) -> tuple[str, int]:
        """The host and port that a process serves."""
        host, _, port = self.processes[name].address.rpartition(":")
        return host, int(port)

    def function(self, name: str, **spec: Any) -> None:
        """Create or change an echo with one worker, and wait until the worker is ready.

        Raises:
            ObjectsError: it does not get ready.
        """
        function = {
            "apiVersion": "runtime.lokiwager.io/v1alpha1",
            "kind": "GPUFunction",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {
                "specName": "g1.0",
                "image": "functions:dev",
                "template": {"command": ["python", "-m", "gpuruntime.framework", "echo.py:echo"]},
                **spec,
            },
        }
        kubectl = self.cluster.access.kubectl
        wait = ("wait", f"gpufunction/{name}", "--namespace", NAMESPACE, f"--timeout={_START_SECONDS:.0f}s")
        try:
            kubectl("apply", "--filename", "-", input_text=json.dumps(function))
            kubectl(*wait, "--for=jsonpath={.status.workers.ready}=1")
        except subprocess.CalledProcessError as error:
            raise ObjectsError(f"the function {name} has no worker: {error.stderr}") from error

    def sidecars(self) -> list[int]:
        """The process IDs of the sidecars of all workers: they have the URL of the activator in their variables."""
        mark = self.processes[ACTIVATOR].address.encode()
        found = []
        for process in Path("/proc").iterdir():
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
                is_one = (
                    _PRODUCT.encode() in words and b"sidecar" in words and mark in (process / "environ").read_bytes()
                )
            except OSError:
                continue
            if is_one:
                found.append(int(process.name))
        return found

    def memory(self, name: str, part: str) -> float:
        """A line of the status of a process in /proc, in MB: VmRSS now, VmHWM at its highest."""
        for line in Path(f"/proc/{self.pids[name]}/status").read_text().splitlines():
            if line.startswith(f"{part}:"):
                return int(line.split()[1]) / 1024
        raise ObjectsError(f"the process {name} has no {part}")

    def start(self, name: str) -> None:
        """Start a process; returns when it is ready.

        Raises:
            ObjectsError: it does not get ready.
        """
        process, log = self.processes[name], self.directory / f"{name}.log"
        self.pids[name] = self.children.start(name, process.command, log, {"PYTHONPATH": str(_ROOT)})
        deadline = time.monotonic() + _START_SECONDS
        while process.probe and not _is_ready(process.probe):
            if name in self.children.exits() or time.monotonic() > deadline:
                raise ObjectsError(f"the process {name} is not ready: {log.read_text()[-300:]}")
            time.sleep(0.1)  # there is no event to await


@asynccontextmanager
async def deployed(directory: Path) -> AsyncIterator[Deployed]:
    """All processes, ready to serve, for the length of the block.

    Raises:
        ObjectsError: one does not get ready.
    """
    functions, workers = directory / "functions", directory / "workers"
    try:
        for path in (functions, workers):
            path.mkdir(parents=True)
        (functions / "echo.py").write_text(_ECHO)
        with (
            LocalCluster(directory / "cluster", nodes=(NodeShape("gpu-1", gpus=8),)) as cluster,
            NatsServer(directory / "nats") as nats,
            ChildProcesses(directory / "processes") as children,
        ):
            cluster.access.kubectl("apply", "--kustomize", str(_ROOT / "manifests" / "overlays" / "local"))
            world = Deployed(cluster, nats, directory, children)
            world.processes.update(_processes(world))
            for name in world.processes:
                await asyncio.to_thread(world.start, name)
            yield world
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _processes(world: Deployed) -> Iterator[tuple[str, _Process]]:
    activator, store = _free_address(), _free_address()
    workers = {"sidecarImage": LOCAL_SIDECAR, "activatorURL": f"ws://{activator}"}
    manager = {"serverless": workers, "minReadySeconds": 0}
    yield "controller-manager", _product(world, "controller-manager", manager, name="controller-manager")
    database = {"database": {"file": str(world.directory / "results.db")}}
    kept = {"httpAddr": store, **database, **_bus(world, RESULT_STORE_USER.name)}
    yield "result-store", _product(world, "result-store", kept, name="result-store")
    dispatch = {"httpAddr": activator, **_bus(world, ACTIVATOR_USER.name)}
    yield ACTIVATOR, _product(world, "activator", dispatch, name=ACTIVATOR)
    for name, module in ((API, _PRODUCT), (API_WITHOUT_PUBLISH, "hack.benchmarks.functions.unwritten_api")):
        served = {"resultStore": {"url": f"http://{store}"}, **_bus(world, API_USER.name)}
        yield name, _product(world, "runtime-api", {"httpAddr": _free_address(), **served}, name=name, module=module)
    paths = (world.directory / "cluster", world.directory / "workers", world.directory / "functions")
    yield "workers", _Process(_python("gpuruntime.testing.local_workers.agent", *map(str, paths)))


def _product(
    world: Deployed, command: str, config: Mapping[str, Any], *, name: str, module: str = _PRODUCT
) -> _Process:
    metrics = _free_address()
    file = world.directory / f"{name}.json"
    file.write_text(json.dumps({"metricsBindAddress": metrics, **config}))
    flags = ("--config", str(file), "--kubeconfig", str(world.cluster.access.kubeconfig))
    return _Process(_python(module, command, *flags), config.get("httpAddr", ""), f"http://{metrics}/readyz")


def _python(*words: str) -> tuple[str, ...]:
    return (sys.executable, "-P", "-m", *words)


def _bus(world: Deployed, user: str) -> dict[str, Any]:
    files = world.nats.files
    credentials = {"userFile": str(files.user_file(user)), "passwordFile": str(files.password_file(user))}
    return {"serverless": {"nats": {"urls": [world.nats.url], **credentials}}}


def _free_address() -> str:
    return f"127.0.0.1:{free_port()}"


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except (urllib.error.URLError, OSError):
        return False
