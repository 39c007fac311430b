"""A Kubernetes control plane on this machine: like envtest, but with controllers, a scheduler and fake nodes."""

import json
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from attrs import evolve

from gpuruntime.testing import assets
from gpuruntime.testing.cluster import components
from gpuruntime.testing.cluster.access import ClusterAccess, kubeconfig_document
from gpuruntime.testing.cluster.admin import RefusedError
from gpuruntime.testing.cluster.etcd_history import compact_history
from gpuruntime.testing.cluster.nodes import NodeShape, default_nodes
from gpuruntime.testing.processes.supervised import ChildProcesses

if TYPE_CHECKING:
    from gpuruntime.testing.node.real import RealNode

__all__ = ["ClusterError", "LocalCluster"]

_START_SECONDS = 120.0
_ATTEMPTS = 3
_COMMANDS: Mapping[str, Callable[[components.Layout], list[str]]] = {
    "etcd": components.etcd,
    "kube-apiserver": components.apiserver,
    "kube-controller-manager": components.controller_manager,
    "kube-scheduler": components.scheduler,
    "kwok": components.kwok,
}


class ClusterError(Exception):
    """The cluster did not start; the message names the component that failed and its last log line."""


class _PortTakenError(Exception):
    pass


class LocalCluster:
    """A real control plane with fake nodes, and real ones if asked for.

    Guarantees:
        - TLS with its own certificate authority, RBAC and ServiceAccount admission are on.
        - `start` returns when the API server is ready, ServiceAccounts are being created and every node is Ready.
        - `stop`, the end of a `with` block, or the death of this process for any reason stops every process, in order.
        - Any number of clusters run side by side, on free ports.
        - Nothing is written outside of its directory, not even as root. A temporary directory is removed with the
          cluster.

    Caveats:
        No container runs on a fake node, and nothing routes to a Service: see `RealNode` for nodes that do both. The
        data is gone after `stop`.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        nodes: tuple[NodeShape, ...] | None = None,
        real_nodes: int = 0,
        audit: bool = False,
        apiserver_flags: Mapping[str, str] | None = None,
        binaries: Path | None = None,
        lock_timeout: float = 0.0,
    ) -> None:
        """Prepare a cluster; nothing is started.

        Args:
            directory: for state and logs, one cluster per directory; a temporary one if None.
            nodes: the fake nodes; four with eight GPUs each if None.
            real_nodes: the number of nodes that run containers, `real-1` and so on; needs root: see `RealNode`.
            audit: log every request to `ClusterAccess.audit_log`.
            apiserver_flags: additional flags of kube-apiserver, without the dashes; they override the defaults.
            binaries: a directory with the six binaries; found or built if None.
            lock_timeout: seconds to wait for an earlier cluster in the same directory to end.
        """
        self._given_directory = directory
        self._directory: Path
        self._nodes = default_nodes() if nodes is None else nodes
        self._real_node_count = real_nodes
        self._real_nodes: tuple[RealNode, ...] = ()
        self._audit = audit
        self._apiserver_flags = dict(apiserver_flags or {})
        self._binaries = binaries
        self._lock_timeout = lock_timeout
        self._children: ChildProcesses | None = None
        self._layout: components.Layout | None = None
        self._access: ClusterAccess | None = None

    @property
    def access(self) -> ClusterAccess:
        """The address and credentials of the running cluster.

        Raises:
            ClusterError: the cluster is not running.
        """
        if self._access is None:
            raise ClusterError("the cluster is not running: call start first")
        return self._access

    @property
    def real_nodes(self) -> "tuple[RealNode, ...]":
        """The nodes of the running cluster that run containers."""
        return self._real_nodes

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> ClusterAccess:
        """Start all components and wait until the cluster is usable. On failure nothing is left running.

        Raises:
            ClusterError: the cluster is running already, or did not start.
            DirectoryInUseError: another cluster uses the directory; it keeps running.
        """
        if self._children is not None:
            raise ClusterError("the cluster is running already")
        binaries = self._binaries or assets.ensure()
        try:
            for attempt in range(1, _ATTEMPTS + 1):
                self._directory = self._given_directory or Path(tempfile.mkdtemp(prefix="gpuruntime-"))
                children = ChildProcesses(self._directory, self._lock_timeout, temporary=self._given_directory is None)
                children.__enter__()
                self._children = children
                try:
                    return self._start(binaries)
                except _PortTakenError:
                    # Another program took a free port before our component could.
                    if attempt == _ATTEMPTS:
                        raise ClusterError(
                            f"other programs took the selected free ports {_ATTEMPTS} times in a row"
                        ) from None
                    self._stop_processes()
        except BaseException:
            self.stop()
            raise
        raise AssertionError("unreachable")

    def stop(self) -> None:
        """Stop every process, the youngest first, and delete the state; logs stay in a directory that was given."""
        self._stop_processes()

    def stop_component(self, name: str) -> None:
        """Stop one component gracefully, for instance `kube-apiserver`; the others keep running."""
        self._running().stop(name)

    def start_component(self, name: str, flags: Mapping[str, str] | None = None) -> None:
        """Start a stopped component, with additional `flags`, and wait until the API server is ready."""
        assert self._layout is not None  # noqa: S101 - set by start, as _running checks
        self._launch(name, evolve(self._layout, apiserver_flags={**self._layout.apiserver_flags, **(flags or {})}))
        try:
            self._wait("the API server", self._api_ready)
        except _PortTakenError:
            raise ClusterError(f"{name} cannot be restarted: another program has taken its port") from None

    def signal_component(self, name: str, number: signal.Signals) -> None:
        """Send a signal to one component: SIGKILL to crash it, SIGSTOP to freeze it."""
        self._running().signal(name, number)

    def expire_resource_versions(self) -> None:
        """Compact etcd and restart the API server: watches from any earlier resource version now get 410 Gone."""
        assert self._layout is not None  # noqa: S101 - set by start, as _running checks
        self.stop_component("kube-apiserver")
        compact_history(f"https://{components.HOST}:{self._layout.etcd_port}", self._layout.pki)
        self.start_component("kube-apiserver")

    def _running(self) -> ChildProcesses:
        if self._children is None:
            raise ClusterError("the cluster is not running: call start first")
        return self._children

    def _start(self, binaries: Path) -> ClusterAccess:
        self._delete_state()
        self._layout = layout = self._prepare(binaries)
        self._access = access = ClusterAccess(
            server=layout.server,
            kubeconfig=layout.kubeconfig("admin"),
            authority=layout.pki.authority.certificate,
            certificate=layout.pki.admin.certificate,
            key=layout.pki.admin.key,
            binaries=binaries,
            audit_log=layout.audit_log if self._audit else None,
        )
        self._launch("etcd", layout)
        self._launch("kube-apiserver", layout)
        self._wait("the API server", self._api_ready)
        for component in ("kube-controller-manager", "kube-scheduler", "kwok"):
            self._launch(component, layout)
        admin = access.admin()
        for node in self._nodes:
            admin.create("/api/v1/nodes", node.manifest())
        self._wait("the nodes", self._nodes_ready)
        self._wait("ServiceAccounts", self._accounts_ready)
        self._start_real_nodes(access)
        access.save(self._directory)
        return access

    def _prepare(self, binaries: Path) -> components.Layout:
        # Imported here, because pytest loads the plugin in every run, also without the extra `testing`.
        from gpuruntime.testing.cluster.certificates import issue_pki  # noqa: PLC0415

        (self._directory / components.SCRATCH).mkdir(mode=0o700)
        api_port, etcd_port = _free_ports(2)
        pki = issue_pki(self._directory / "pki", components.SERVER_HOSTS)
        layout = components.Layout(
            self._directory, binaries, pki, api_port, etcd_port, self._audit, self._apiserver_flags
        )
        authority = layout.pki.authority.certificate.read_bytes()
        users = {
            "admin": layout.pki.admin,
            "kube-controller-manager": layout.pki.controller_manager,
            "kube-scheduler": layout.pki.scheduler,
            "kwok": layout.pki.kwok,
        }
        for name, pair in users.items():
            document = kubeconfig_document(layout.server, authority, pair.inline())
            layout.kubeconfig(name).touch(mode=0o600)
            layout.kubeconfig(name).write_text(json.dumps(document, indent=2))
        (self._directory / "kube-scheduler.yaml").write_text(json.dumps(components.scheduler_config(layout)))
        return layout

    def _launch(self, component: str, layout: components.Layout) -> None:
        environment = components.component_environment(layout.directory)
        self._running().start(component, _COMMANDS[component](layout), layout.log(component), environment)

    def _wait(self, what: str, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not self._probe(ready):
            self._fail_if_a_component_exited()
            if time.monotonic() > deadline:
                raise ClusterError(f"{what} not ready after {_START_SECONDS:.0f} s; logs: {self._directory / 'logs'}")
            time.sleep(0.05)  # a starting server has no event to await

    def _probe(self, ready: Callable[[], bool]) -> bool:
        try:
            return ready()
        except (OSError, RefusedError):
            return False

    def _fail_if_a_component_exited(self) -> None:
        assert self._layout is not None  # noqa: S101 - set by _start
        for component, code in self._running().exits().items():
            log = self._layout.log(component)
            lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
            if any("address already in use" in line for line in lines):
                raise _PortTakenError
            last = lines[-1] if lines else "no output"
            raise ClusterError(f"{component} exited with code {code}: {last}; log: {log}")

    def _api_ready(self) -> bool:
        return bool(self.access.admin().get("/readyz") == "ok")

    def _nodes_ready(self) -> bool:
        nodes = self.access.admin().get("/api/v1/nodes")["items"]
        ready = [
            node["metadata"]["name"]
            for node in nodes
            for condition in node["status"].get("conditions", [])
            if condition["type"] == "Ready" and condition["status"] == "True"
        ]
        return len(ready) == len(self._nodes)

    def _accounts_ready(self) -> bool:
        self.access.admin().get("/api/v1/namespaces/default/serviceaccounts/default")
        return True

    def _start_real_nodes(self, access: ClusterAccess) -> None:
        # Imported here, because a real node is started in a running cluster, and knows of it.
        from gpuruntime.testing.node.real import RealNode  # noqa: PLC0415

        for number in range(1, self._real_node_count + 1):
            name = f"real-{number}"
            # Beside a temporary directory, not in it: each is removed by the supervisor of its own processes.
            directory = None if self._given_directory is None else self._directory / name
            node = RealNode(access, directory, name=name)
            node.__enter__()
            self._real_nodes = (*self._real_nodes, node)

    def _stop_processes(self) -> None:
        while self._real_nodes:
            *others, last = self._real_nodes
            self._real_nodes = tuple(others)
            last.__exit__(None, None, None)
        if self._children is not None:
            ClusterAccess.withdraw(self._directory)
            self._children.__exit__(None, None, None)
            self._children = None
            self._delete_state(keep_logs=True)
            if self._given_directory is None:
                # Normally the supervisor removes a temporary directory; this is for one that was killed.
                shutil.rmtree(self._directory, ignore_errors=True)
        self._access = None

    def _delete_state(self, *, keep_logs: bool = False) -> None:
        for name in ("pki", "etcd", components.SCRATCH, *(() if keep_logs else ("logs",))):
            shutil.rmtree(self._directory / name, ignore_errors=True)
        if not keep_logs:
            (self._directory / "audit.log").unlink(missing_ok=True)


def _free_ports(count: int) -> list[int]:
    """Free ports. All sockets stay open until the last port is found, so that the ports differ."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind((components.HOST, 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
