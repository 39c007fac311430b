"""The product in separate processes, each with the token of its account, in namespaces of the test."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import aiohttp
from attrs import asdict, field, frozen

from gpuruntime.api.namespaces import Namespaces
from gpuruntime.control.permissions.offline_credentials import OFFLINE_CREDENTIALS
from gpuruntime.processes.controller_manager import ControllerManagerConfig, build_controller_manager
from gpuruntime.processes.runtime_api import RuntimeApiConfig, build_runtime_api
from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.permissions import granted_account
from tests.ports import free_address

__all__ = ["Process", "SplitWorld", "split_world"]

_COMMAND: Final = (sys.executable, "-m", "gpuruntime.processes.command")


@frozen
class Process:
    """A running process: its addresses and its log."""

    popen: "subprocess.Popen[bytes]"
    metrics: str
    api: str
    log: Path

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def kill(self) -> None:
        self.popen.kill()
        self.popen.wait()

    async def stop(self) -> int:
        """Shut it down gracefully; returns its exit code."""
        self.popen.send_signal(signal.SIGTERM)
        return await self.ended()

    async def ended(self) -> int:
        """Returns when it has ended, with its exit code."""
        return await asyncio.to_thread(self.popen.wait)

    async def ready(self) -> None:
        """Returns when it is ready; the log is shown if it ended instead."""
        async with aiohttp.ClientSession() as session:
            while True:
                assert self.popen.poll() is None, self.log.read_text()
                with suppress(aiohttp.ClientError):
                    async with session.get(f"{self.metrics}/readyz") as answer:
                        if answer.status == 200:
                            return
                await asyncio.sleep(0.1)  # a starting server announces nothing that could be awaited


@frozen
class SplitWorld:
    """Namespaces, and an account for each of the two processes, with the permissions of its manifests."""

    directory: Path
    namespaces: Namespaces
    kubeconfigs: Mapping[str, Path]
    _running: ExitStack = field(repr=False)

    async def controller_manager(self) -> Process:
        """Start one; returns when it is ready, which it is before it is the leader."""
        return await self._start("controller-manager", {})

    async def runtime_api(self) -> Process:
        """Start one; returns when it is ready."""
        return await self._start("runtime-api", {"httpAddr": free_address()})

    async def _start(self, command: str, config: dict[str, Any]) -> Process:
        address = free_address()
        whole = {
            "kubeconfig": str(self.kubeconfigs[command]),
            "namespaces": asdict(self.namespaces),
            "metricsBindAddress": address,
            "logging": {"format": "json"},
            **config,
        }
        file = self.directory / f"{command}.yaml"
        file.write_text(json.dumps(whole))
        log = self.directory / f"{command}.log"
        popen = self._running.enter_context(_running([*_COMMAND, command, "--config", str(file)], log))
        process = Process(popen, f"http://{address}", f"http://{config.get('httpAddr', '')}/api/v1", log)
        await process.ready()
        return process


@asynccontextmanager
async def split_world(access: ClusterAccess, namespace: str, stock: str, directory: Path) -> AsyncIterator[SplitWorld]:
    """A world whose active units and Operations are in one namespace, and whose stock is in another."""
    namespaces = Namespaces((namespace,), (stock,), namespace)
    controller = build_controller_manager(OFFLINE_CREDENTIALS, ControllerManagerConfig(namespaces=namespaces))
    server = build_runtime_api(OFFLINE_CREDENTIALS, RuntimeApiConfig(namespaces=namespaces))
    granted = {"controller-manager": controller.permissions, "runtime-api": server.permissions}
    with ExitStack() as running:
        kubeconfigs = {
            name: running.enter_context(
                granted_account(access, permissions, namespace=namespace, directory=directory)
            ).kubeconfig
            for name, permissions in granted.items()
        }
        yield SplitWorld(directory, namespaces, kubeconfigs, running)


@contextmanager
def _running(command: list[str], log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    with log.open("wb") as output, subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=output) as popen:
        try:
            yield popen
        finally:
            popen.kill()
