"""One worker on this machine: a sidecar and a program that belong to a pod.

::

    token ──> sidecar starts ──> /healthz 200 ──> program starts ──> /readyz 200 ──> the pod is ready

| what happens | then |
|---|---|
| the API server gives no token | the pod says why; it is asked for again, and nothing starts before |
| the sidecar ends | it is restarted, on another port; the program goes on |
| the program ends | it is restarted, later and later; the pod is not ready meanwhile |
| the program is not healthy in its time | it is killed, and so restarted |
| the pod is deleted | the sidecar drains, the program gets SIGTERM, then the sidecar; SIGKILL when the grace is over |
| the pod is gone | everything is killed |
| this process ends | everything is killed, see `HostProcesses` |
"""

import asyncio
import logging
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import aiohttp
from attrs import evolve, frozen

from gpuruntime.aio.backoff import BackoffSchedule
from gpuruntime.api.serverless import (
    DRAIN_PATH,
    FRAMEWORK_SOCKET_ENV,
    HEALTH_PATH,
    HEALTH_PORT_ENV,
    PROGRAM_SOCKET_ENV,
    READY_PATH,
    SIDECAR_NAME,
    TOKEN_FILE_ENV,
)
from gpuruntime.kube import Client, KubeError
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.testing.local_workers.host_processes import HostProcess, HostProcesses
from gpuruntime.testing.local_workers.kept_process import RESTARTS, KeptProcess
from gpuruntime.testing.local_workers.plan import WorkerPlan
from gpuruntime.testing.local_workers.pod_status import WorkerView, starts_before
from gpuruntime.testing.local_workers.pod_token import PodToken
from gpuruntime.testing.processes.free_port import free_port

__all__ = ["LocalWorker", "Machine"]

_LOG: Final = logging.getLogger(__name__)
_HOST: Final = "127.0.0.1"
_SIDECAR: Final = ("gpuruntime.processes.command", "sidecar")
_SOCKET: Final = "f.sock"
_PATHS: Final = os.defpath
_PROBE_SECONDS: Final = 5.0
_STARTING_PERIOD: Final = 0.1
_PERIOD: Final = 1.0
_MISSED_ANSWERS: Final = 3
_RETRY_SECONDS: Final = 1.0
# After a drain the program has nothing left to do.
_END_SECONDS: Final = 10.0


@frozen
class Machine:
    """What the workers of this machine share."""

    client: Client
    processes: HostProcesses
    session: aiohttp.ClientSession
    functions: Path
    scratch: Path
    """For a private directory of each worker; its path is short, because that of a socket has 107 bytes at most."""
    logs: Path
    restarts: BackoffSchedule = RESTARTS


class LocalWorker:
    """The processes of one pod. `run` ends when they have ended, after `end` or by cancellation.

    Guarantees:
        `changed` is called after each change of `view` and at the end. When `run` has returned, none of its processes
        runs, and its directory is gone; its logs stay.
    """

    def __init__(self, machine: Machine, pod: Pod, plan: WorkerPlan, changed: Callable[[], None]) -> None:
        self.pod: Final = pod
        self.has_ended = False
        self._machine = machine
        self._plan = plan
        self._changed = changed
        self._directory = machine.scratch / (pod.metadata.uid or "")[:13]
        self._url = ""
        self._serving = asyncio.Event()
        self._ending = asyncio.Event()
        self._deadline = float("inf")
        self._healthy_by = float("inf")
        self._probed = WorkerView()
        status = pod.status
        self._sidecar = self._kept(
            SIDECAR_NAME, self._start_sidecar, starts_before(status.init_container_statuses), self._on_sidecar
        )
        self._program = self._kept(
            plan.program, self._start_program, starts_before(status.container_statuses), self._on_program
        )

    @property
    def view(self) -> WorkerView:
        return evolve(self._probed, sidecar=self._sidecar.observed, program=self._program.observed)

    def end(self, grace: float) -> None:
        """Begin to drain and end, within `grace` seconds. Later calls can only shorten the time."""
        self._deadline = min(self._deadline, asyncio.get_running_loop().time() + grace)
        self._ending.set()

    async def run(self) -> None:
        """Run sidecar and program until `end`, then drain and end them."""
        self._home.mkdir(mode=0o700, parents=True)
        try:
            async with asyncio.TaskGroup() as group:
                work = group.create_task(self._work())
                await self._ending.wait()
                await self._drain()
                work.cancel()
        finally:
            for process in (self._program, self._sidecar):
                await process.stop(within=0)
            shutil.rmtree(self._directory, ignore_errors=True)
            self.has_ended = True
            self._changed()

    async def _work(self) -> None:
        token = PodToken.of(self._machine.client, self.pod, self._token_file)
        await self._first(token)
        async with asyncio.TaskGroup() as group:
            group.create_task(token.renew())
            group.create_task(self._sidecar.run())
            group.create_task(self._probe())
            await self._serving.wait()
            group.create_task(self._program.run())

    async def _first(self, token: PodToken) -> None:
        while True:
            try:
                await token.write()
            except KubeError as error:
                self._see(evolve(self._probed, problem=f"the API server gives no token for the sidecar: {error}"))
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                self._see(evolve(self._probed, problem=""))
                return

    async def _drain(self) -> None:
        """What a kubelet does with a deleted pod: ask /drain, then SIGTERM to the program, then to the sidecar."""
        now = asyncio.get_running_loop().time
        if self._sidecar.observed.is_running:
            await self._asks(DRAIN_PATH, self._deadline - now())
        for process in (self._program, self._sidecar):
            await process.stop(min(_END_SECONDS, self._deadline - now()))

    async def _probe(self) -> None:
        """Ask the sidecar again and again whether it serves and the program is healthy."""
        missed = 0
        while True:
            if not self._probed.is_serving:
                if await self._asks(HEALTH_PATH, _PROBE_SECONDS):
                    self._see(evolve(self._probed, is_serving=True))
                    self._serving.set()
            else:
                answer = await self._asks(READY_PATH, _PROBE_SECONDS)
                missed = 0 if answer is not None else missed + 1
                # A sidecar that says no is believed at once; a busy machine may owe an answer.
                if answer is not None or missed >= _MISSED_ANSWERS:
                    self._set_ready(is_ready=bool(answer))
            self._check_startup()
            await asyncio.sleep(_PERIOD if self._probed.is_ready else _STARTING_PERIOD)

    def _set_ready(self, *, is_ready: bool) -> None:
        # An answer from before the last start of the program is none about this one.
        is_ready = is_ready and self._program.observed.is_running
        self._see(evolve(self._probed, is_ready=is_ready, has_started=self._probed.has_started or is_ready))

    def _check_startup(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._program.observed.is_running and not self._probed.has_started and now > self._healthy_by:
            _LOG.warning(
                "program not healthy in time", extra={"pod": self._name, "seconds": self._plan.startup_seconds}
            )
            self._healthy_by = float("inf")
            self._program.kill()

    async def _asks(self, path: str, within: float) -> bool | None:
        """Whether the sidecar answers with 200; None if it does not answer."""
        if not self._url:
            return None
        timeout = aiohttp.ClientTimeout(total=max(0.1, within))
        try:
            async with self._machine.session.get(f"{self._url}{path}", timeout=timeout) as response:
                return response.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return None

    def _see(self, probed: WorkerView) -> None:
        if probed != self._probed:
            self._probed = probed
            self._changed()

    def _on_sidecar(self) -> None:
        if not self._sidecar.observed.is_running:
            self._probed = evolve(self._probed, is_serving=False, is_ready=False)
        self._changed()

    def _on_program(self) -> None:
        self._probed = evolve(self._probed, has_started=False, is_ready=False)
        self._healthy_by = asyncio.get_running_loop().time() + self._plan.startup_seconds
        self._changed()

    @property
    def _name(self) -> str:
        return f"{self.pod.metadata.namespace}/{self.pod.metadata.name}"

    @property
    def _token_file(self) -> Path:
        return self._directory / "token"

    @property
    def _home(self) -> Path:
        return self._directory / "home"

    @property
    def _base(self) -> dict[str, str]:
        return {"PATH": _PATHS, "HOME": str(self._home), "LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1"}

    def _kept(
        self, container: str, start: Callable[[], HostProcess], restarts: int, changed: Callable[[], None]
    ) -> KeptProcess:
        log = self._log(container)
        return KeptProcess(start, log, changed, restarts=restarts, schedule=self._machine.restarts)

    def _log(self, container: str) -> Path:
        meta = self.pod.metadata
        return self._machine.logs / f"{meta.namespace}_{meta.name}_{container}.log"

    def _start_sidecar(self) -> HostProcess:
        # Another one after each end: what ended it may be that another process took the port.
        port = free_port()
        self._url = f"http://{_HOST}:{port}"
        own = {
            TOKEN_FILE_ENV: str(self._token_file),
            FRAMEWORK_SOCKET_ENV: str(self._directory / _SOCKET),
            HEALTH_PORT_ENV: str(port),
        }
        command = (sys.executable, "-m", *_SIDECAR)
        return self._start(SIDECAR_NAME, command, {**self._plan.sidecar_env, **own}, self._home)

    def _start_program(self) -> HostProcess:
        own = {PROGRAM_SOCKET_ENV: str(self._directory / _SOCKET)}
        command = (sys.executable, "-m", "gpuruntime.framework", self._plan.target)
        return self._start(self._plan.program, command, {**self._plan.program_env, **own}, self._machine.functions)

    def _start(self, container: str, command: tuple[str, ...], env: dict[str, str], cwd: Path) -> HostProcess:
        name = f"{self._name}/{self.pod.metadata.uid}/{container}"
        log = self._log(container)
        return self._machine.processes.start(name, command, log=log, env={**env, **self._base}, cwd=cwd)
