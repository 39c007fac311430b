"""pytest fixtures, active wherever the package is installed: a real control plane for every test that requests one.

`kube_cluster` is shared by the whole run, including xdist workers; `kube_namespace` and `nats_server` are private to
each test.
"""

import os
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from gpuruntime.testing.cluster.access import ClusterAccess
from gpuruntime.testing.cluster.accounts import Account, create_account, delete_account
from gpuruntime.testing.cluster.audit import AuditLog
from gpuruntime.testing.cluster.namespaces import create_namespace
from gpuruntime.testing.cluster.nodes import NodeShape
from gpuruntime.testing.cluster.shared import SharedCluster
from gpuruntime.testing.images import ImageStore
from gpuruntime.testing.node.requirements import RealNodeUnavailableError, require_real_node
from gpuruntime.testing.node.shared import NodeAccess, SharedNode

if TYPE_CHECKING:
    from gpuruntime.testing.local_workers.local_workers import LocalWorkers
    from gpuruntime.testing.nats.server import NatsServer
    from gpuruntime.testing.volumes.fake_volumes import FakeVolumes

__all__ = [
    "AccountFactory",
    "kube_account",
    "kube_audit",
    "kube_cluster",
    "kube_images",
    "kube_local_workers",
    "kube_namespace",
    "kube_nodes",
    "kube_real_node",
    "kube_volumes",
    "nats_server",
    "skip_without_real_node",
]

_SHARED = pytest.StashKey[SharedCluster]()
_WORKER_INPUT = "gpuruntime_cluster"
_TIMEOUT_SECONDS = 30.0
# Its value `required` makes a test fail that is otherwise skipped, because this machine cannot run a real node.
_REAL_NODE_VARIABLE = "GPURUNTIME_REAL_NODE"


class AccountFactory(Protocol):
    """The type of `kube_account`: creates ServiceAccounts in the test's namespace."""

    def __call__(
        self, *, rules: Sequence[Mapping[str, Any]] = (), cluster_rules: Sequence[Mapping[str, Any]] = ()
    ) -> Account:
        """Create one with these RBAC rules, in the namespace and cluster-wide."""


def skip_without_real_node() -> None:
    """Skip the test if this machine cannot run a real node; fail it where GPURUNTIME_REAL_NODE=required is set."""
    try:
        require_real_node()
    except RealNodeUnavailableError as error:
        if os.environ.get(_REAL_NODE_VARIABLE) == "required":
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "real_node: needs a node that runs containers, and root for it")
    given = getattr(config, "workerinput", {}).get(_WORKER_INPUT)
    if given is None:
        # Only a name: nothing is created before a test needs a cluster.
        directory = Path(tempfile.gettempdir()) / f"gpuruntime-tests-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        config.stash[_SHARED] = SharedCluster(directory, os.getpid())
    else:
        config.stash[_SHARED] = SharedCluster(Path(given["directory"]), given["owner"])


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    shared = node.config.stash[_SHARED]
    node.workerinput[_WORKER_INPUT] = {"directory": str(shared.directory), "owner": shared.owner}


def pytest_unconfigure(config: pytest.Config) -> None:
    shared = config.stash[_SHARED]
    if shared.owner == os.getpid():
        SharedNode(shared).stop()
        shared.stop()


@pytest.fixture(scope="session")
def kube_cluster(pytestconfig: pytest.Config) -> ClusterAccess:
    """A real control plane with four fake GPU nodes, shared by all tests of the run."""
    return pytestconfig.stash[_SHARED].start()


@pytest.fixture(scope="session")
def _real_node(pytestconfig: pytest.Config) -> NodeAccess:
    skip_without_real_node()
    return SharedNode(pytestconfig.stash[_SHARED]).start()


@pytest.fixture(scope="session")
def kube_real_node(_real_node: NodeAccess) -> str:
    """The name of a node of the shared cluster that runs containers, with four fake GPUs; started on first use.

    Pods that run there have a nodeSelector and a toleration of `gpuruntime.local/real-node`. Where the machine cannot
    run such a node, the test is skipped; it fails where the environment has GPURUNTIME_REAL_NODE=required.
    """
    return _real_node.name


@pytest.fixture(scope="session")
def kube_images(_real_node: NodeAccess) -> ImageStore:
    """The images that pods of `kube_real_node` can use; add some with `kube_images.add(NAME, FILES, base="python")`."""
    return ImageStore(_real_node.images)


@pytest.fixture
def kube_namespace(kube_cluster: ClusterAccess) -> Iterator[str]:
    """A namespace that only this test uses, ready for pods; deleted afterwards."""
    admin = kube_cluster.admin()
    name = f"test-{uuid.uuid4().hex[:10]}"
    create_namespace(admin, name)
    yield name
    admin.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
def kube_nodes(kube_cluster: ClusterAccess) -> Iterator[Callable[[NodeShape], None]]:
    """Call it with a shape to add a fake node for the length of the test.

    Other tests see the node as well, and it goes while their pods run. So it has the taint `nvidia.com/gpu:NoSchedule`
    that GPU nodes commonly have: pods that request no GPU stay away unless they tolerate it.
    """
    admin = kube_cluster.admin()
    added: list[str] = []

    def add(shape: NodeShape) -> None:
        admin.create("/api/v1/nodes", shape.for_gpu_pods().manifest())
        added.append(shape.name)
        kube_cluster.kubectl(
            "wait", f"node/{shape.name}", "--for=condition=Ready", f"--timeout={_TIMEOUT_SECONDS:.0f}s"
        )

    yield add
    for name in added:
        admin.delete(f"/api/v1/nodes/{name}")


@pytest.fixture
def kube_account(kube_cluster: ClusterAccess, kube_namespace: str, tmp_path: Path) -> Iterator[AccountFactory]:
    """Create ServiceAccounts with given RBAC rules, each with a token and a kubeconfig; deleted after the test."""
    created: list[Account] = []

    def create(*, rules: Sequence[Mapping[str, Any]] = (), cluster_rules: Sequence[Mapping[str, Any]] = ()) -> Account:
        created.append(create_account(kube_cluster, kube_namespace, tmp_path, rules=rules, cluster_rules=cluster_rules))
        return created[-1]

    yield create
    for account in created:
        delete_account(kube_cluster, account)


@pytest.fixture
def kube_volumes(kube_cluster: ClusterAccess, kube_namespace: str, tmp_path: Path) -> Iterator["FakeVolumes"]:
    """Storage classes for fake nodes that only this test uses, and the faults of their volumes.

    `async with kube_volumes.running():` runs the provisioner and the resizer. Classes and volumes are deleted after the
    test.
    """
    # Imported here, because it imports the whole library, and pytest loads the plugin in every run.
    from gpuruntime.testing.volumes.fake_volumes import FakeVolumes  # noqa: PLC0415

    with FakeVolumes(
        kube_cluster, kube_namespace, tmp_path, name=f"fake-{uuid.uuid4().hex[:8]}"
    ).installed() as volumes:
        yield volumes


@pytest.fixture
def kube_local_workers(kube_cluster: ClusterAccess, kube_namespace: str, tmp_path: Path) -> Iterator["LocalWorkers"]:
    """Workers of functions on this machine, for pods of this test on fake nodes; see `LocalWorkers`.

    `async with kube_local_workers.running():` runs them. They run functions of the directory
    `kube_local_workers.functions`, which is empty at first.
    """
    # Imported here, because it imports the whole library, and pytest loads the plugin in every run.
    from gpuruntime.testing.local_workers.local_workers import LocalWorkers  # noqa: PLC0415

    functions = tmp_path / "functions"
    functions.mkdir()
    yield LocalWorkers(kube_cluster, kube_namespace, tmp_path, functions, namespaces=(kube_namespace,))
    # Their grace period would keep the namespace for minutes.
    force = ("--grace-period=0", "--force", "--ignore-not-found")
    kube_cluster.kubectl("delete", "pods", "--all", "--namespace", kube_namespace, *force)


@pytest.fixture
def kube_audit(kube_cluster: ClusterAccess) -> AuditLog:
    """The requests of the cluster: `with kube_audit.recording() as seen:`, then `seen.writes(...)`."""
    if kube_cluster.audit_log is None:
        raise RuntimeError("this cluster has no audit log: start it with audit=True")
    return AuditLog(kube_cluster.audit_log)


@pytest.fixture
def nats_server(tmp_path: Path) -> Iterator["NatsServer"]:
    """A real NATS server with streams on disk that only this test uses; it can be killed, stopped and started again."""
    # Imported here, because it needs the extra `serverless`, and pytest loads the plugin in every run.
    from gpuruntime.testing.nats.server import NatsServer  # noqa: PLC0415

    with NatsServer(tmp_path / "nats") as server:
        yield server
