"""Workers of functions for fake nodes: real processes on this machine, behind the pods of a real control plane.

::

    async with kube_local_workers.running():
        ...  # create the pod of a worker whose sidecar has the image LOCAL_SIDECAR: it runs, and is ready

What happens when something fails, beside what `worker` says of one worker:

| what | then |
|---|---|
| this process ends, in any moment | its workers are killed; the next one starts them again, and counts a restart |
| the API server is away | workers go on; statuses and deletions follow when it is back |
| a pod is deleted while nothing here runs | the next runner removes it at once, or kwok at the end of its grace |
"""

import asyncio
import logging
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import aiohttp

from gpuruntime.aio.backoff import BackoffSchedule
from gpuruntime.api.names import FUNCTION_LABEL
from gpuruntime.control import (
    OFFLINE_CREDENTIALS,
    Channel,
    Context,
    Informer,
    Manager,
    ManagerOptions,
    Permission,
    Result,
    allow,
    allow_status,
    by_field,
    write_status,
)
from gpuruntime.kube import Credentials, NotFoundError, from_kubeconfig, metadata_only
from gpuruntime.kube.builtin.core import ServiceAccount
from gpuruntime.kube.builtin.nodes import Node
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.meta import ObjectKey, PartialObject
from gpuruntime.testing.cluster.access import ClusterAccess
from gpuruntime.testing.cluster.nodes import FAKE_NODE_ANNOTATION
from gpuruntime.testing.local_workers.host_processes import HostProcesses
from gpuruntime.testing.local_workers.kept_process import RESTARTS
from gpuruntime.testing.local_workers.plan import PodRefusedError, is_local, plan_of
from gpuruntime.testing.local_workers.pod_status import refused_status, running_status
from gpuruntime.testing.local_workers.worker import LocalWorker, Machine
from gpuruntime.testing.managers import running
from gpuruntime.testing.permissions import granted_account

__all__ = ["LocalWorkers"]

_LOG: Final = logging.getLogger(__name__)
_MANAGER: Final = "local-workers"
_NODE_INDEX: Final = "spec.nodeName"
_PREFIX: Final = "gpurt-"
# The kernel limits the path of a socket to 107 bytes; ours has 37 after the temporary directory.
_LONGEST: Final = 70
_ENDED: Final = frozenset({"Succeeded", "Failed"})
_NODES: Final = metadata_only(Node.KIND)


class _Workers:
    """The workers of this machine, each a task of one group."""

    def __init__(self, functions: Path, logs: Path, restarts: BackoffSchedule) -> None:
        self._functions = functions
        self._logs = logs
        self._restarts = restarts
        self._tasks: dict[str, tuple[LocalWorker, asyncio.Task[None]]] = {}
        self._open: asyncio.Future[tuple[Machine, asyncio.TaskGroup]] = asyncio.get_running_loop().create_future()

    async def run(self, manager: Manager) -> None:
        """Own the processes until cancelled."""
        scratch = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_short_directory()))
        async with HostProcesses(scratch) as processes, aiohttp.ClientSession() as session:
            machine = Machine(manager.client, processes, session, self._functions, scratch, self._logs, self._restarts)
            async with asyncio.TaskGroup() as group:
                self._open.set_result((machine, group))
                await asyncio.Event().wait()

    def get(self, uid: str) -> LocalWorker | None:
        found = self._tasks.get(uid)
        return None if found is None else found[0]

    async def start(self, pod: Pod, changed: Callable[[], None]) -> LocalWorker:
        """Start the worker of a pod.

        Raises:
            PodRefusedError: this machine does not run it.
        """
        machine, group = await self._open
        worker = LocalWorker(machine, pod, plan_of(pod, machine.functions), changed)
        uid = pod.metadata.uid or ""
        self._tasks[uid] = (worker, group.create_task(worker.run(), name=f"worker {pod.key}"))
        _LOG.info("local worker started", extra={"pod": str(pod.key), "function": pod.metadata.labels[FUNCTION_LABEL]})
        return worker

    def forget(self, key: ObjectKey, but: str = "") -> None:
        """Kill the workers of pods that are gone: all of this name except the one with this UID."""
        gone = [uid for uid, (worker, _) in self._tasks.items() if worker.pod.key == key and uid != but]
        for uid in gone:
            _, task = self._tasks.pop(uid)
            task.cancel()


class LocalWorkers:
    """Runs the workers of functions on this machine, for pods on fake nodes whose sidecar has the image LOCAL_SIDECAR.

    Guarantees:
        - Each pod has a real `gpuruntime sidecar` with a token that is bound to the pod, and its program. The pod is
          ready when the sidecar says so, counts restarts, and drains when it is deleted: as with a kubelet.
        - Nothing runs but `python -m gpuruntime.framework TARGET`, with a target below one directory. Another pod waits
          with reason CreateContainerConfigError, and its message says what is refused.
        - No process and no file outlives this process, except for logs.
        - The API server sees a ServiceAccount with exactly the permissions that are needed.

    Caveats:
        Programs run with the rights of this user, share its network and can read its files: no container keeps the
        token from them. Limits of memory and CPU do not hold.
    """

    def __init__(
        self,
        access: ClusterAccess,
        namespace: str,
        directory: Path,
        functions: Path,
        *,
        namespaces: Sequence[str] = (),
        restarts: BackoffSchedule = RESTARTS,
    ) -> None:
        """Prepare a runner; nothing is started.

        Args:
            access: the cluster.
            namespace: of the runner's ServiceAccount.
            directory: for its kubeconfig, and logs/NAMESPACE_POD_CONTAINER.log.
            functions: the directory of the functions that may run.
            namespaces: of the pods; none is all.
            restarts: how long a process that ends again waits for its restart.
        """
        self._access = access
        self._namespace = namespace
        self._directory = directory
        self.functions: Final = functions
        self._namespaces = tuple(namespaces)
        self._restarts = restarts
        self._manager: Manager | None = None

    @asynccontextmanager
    async def running(self, *, within: float = 240.0) -> AsyncIterator["LocalWorkers"]:
        """Run workers for the length of the block, `within` seconds at most; then kill them.

        Raises:
            RuntimeError: they run already.
            TimeoutError: the block has not ended in time.
        """
        if self._manager is not None:
            raise RuntimeError("these local workers run already: leave the other block of running() first")
        granted = granted_account(self._access, self.permissions, namespace=self._namespace, directory=self._directory)
        stack = ExitStack()
        try:
            account = await asyncio.to_thread(stack.enter_context, granted)
            manager = self._build(from_kubeconfig(account.kubeconfig))
            async with running(manager, within=within):
                self._manager = manager
                try:
                    yield self
                finally:
                    self._manager = None
        finally:
            await asyncio.to_thread(stack.close)

    @property
    def permissions(self) -> tuple[Permission, ...]:
        """The permissions of the runner. Needs a running loop, as managers do."""
        return self._build(OFFLINE_CREDENTIALS).permissions

    @property
    def pods(self) -> Informer[Pod]:
        """The pods of functions, for `wait_for(kube_local_workers.pods, key, ...)`.

        Raises:
            RuntimeError: outside of a block of `running`.
        """
        if self._manager is None:
            raise RuntimeError("pods needs running workers: use it inside of `async with workers.running():`")
        return self._pods_of(self._manager)

    @property
    def logs(self) -> Path:
        """The directory of the logs: NAMESPACE_POD_CONTAINER.log."""
        return self._directory / "logs"

    def _pods_of(self, manager: Manager) -> Informer[Pod]:
        return manager.cache.informer(
            Pod, namespaces=self._namespaces, labels=FUNCTION_LABEL, indexes=[by_field(_NODE_INDEX)]
        )

    def _build(self, credentials: Credentials) -> Manager:
        manager = Manager(credentials, ManagerOptions(_MANAGER, grace=10.0))
        pods = self._pods_of(manager)
        workers = _Workers(self.functions, self.logs, self._restarts)
        runner = _Runner(workers, Channel("processes"))

        def on_node(node: PartialObject) -> list[ObjectKey]:
            return [pod.key for pod in pods.store.list(where={_NODE_INDEX: node.metadata.name}).items]

        builder = manager.controller(pods, name="local-workers").watches(_NODES, on_node).source(runner.channel)
        builder.permissions(
            allow_status(Pod),
            allow(Pod, "delete"),
            allow(ServiceAccount, "create", subresource="token", namespaces=self._namespaces),
        )
        builder.reconcile_keys(runner.reconcile)
        manager.add(lambda: workers.run(manager), "local workers", group="always")
        return manager


class _Runner:
    """The controller of pods: starts, ends and reports what `_Workers` owns."""

    def __init__(self, workers: _Workers, channel: Channel[ObjectKey]) -> None:
        self._workers = workers
        self.channel: Final = channel

    async def reconcile(self, key: ObjectKey, ctx: Context) -> Result:
        pod = ctx.get(Pod, key.name, key.namespace)
        uid = "" if pod is None else pod.metadata.uid or ""
        self._workers.forget(key, but=uid)
        if pod is None or not is_local(pod) or not _is_fake(pod, ctx) or pod.status.phase in _ENDED:
            return Result.done()
        worker = self._workers.get(uid)
        if pod.metadata.deletion_timestamp is not None:
            if worker is None or worker.has_ended:
                # As the kubelet does when the last container has ended.
                with suppress(NotFoundError):
                    await ctx.client.delete(Pod, key.name, key.namespace, uid=uid, grace_seconds=0)
                return Result.done()
            worker.end(float(pod.metadata.deletion_grace_period_seconds or 0))
        now = datetime.now(UTC)
        try:
            worker = worker or await self._workers.start(pod, lambda: self.channel.send(key, why="process"))
            status = running_status(pod, worker.view, now)
        except PodRefusedError as refused:
            status = refused_status(pod, str(refused), now)
        # A pod that is gone meanwhile is a change that comes.
        with suppress(NotFoundError):
            await write_status(ctx.client, pod, status)
        return Result.done()


def _is_fake(pod: Pod, ctx: Context) -> bool:
    """Whether the pod is on a fake node; not yet if the node is unknown, whose appearance is a change."""
    node = ctx.get(_NODES, pod.spec.node_name or "", "") if pod.spec.node_name else None
    return node is not None and FAKE_NODE_ANNOTATION in node.metadata.annotations


def _short_directory() -> Path:
    found = Path(tempfile.gettempdir())
    return found if len(str(found)) <= _LONGEST - len(_PREFIX) else Path("/tmp")  # noqa: S108 - mkdtemp makes a private one in it
