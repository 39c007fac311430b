"""The installation of the stories: on a local cluster, or in the cluster of E2E_KUBECONFIG."""

import fcntl
import os
import uuid
from collections.abc import Generator, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest

from e2e.audit_trail import AuditTrail
from e2e.installation import Installation
from e2e.installation_local import LocalReplicas, own_installation, shared_installation
from e2e.installation_remote import remote_installation

KUBECONFIG = os.environ.get("E2E_KUBECONFIG")
AUDIT_LOG = os.environ.get("E2E_AUDIT_LOG")
GATEWAY = os.environ.get("E2E_GATEWAY")
OVERLAY = os.environ.get("E2E_OVERLAY")
USED = pytest.StashKey[Installation]()
# For the stories that wait for the installation, too.
EXCLUSIVE_SECONDS = 900
# Fixtures that are not available in another cluster.
LOCAL = {
    "fresh": "this story needs its own cluster: run it without --kubeconfig and --real-node",
    "programs": "there is no image of a later release",
    **({} if AUDIT_LOG else {"trail": "the audit log of this cluster is not available"}),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip stories that cannot run in another cluster before anything is set up, and have patience with those that wait
    for each other.
    """
    for item in items:
        names = getattr(item, "fixturenames", ())
        missing = [reason for name, reason in LOCAL.items() if name in names]
        if missing and KUBECONFIG is not None:
            item.add_marker(pytest.mark.skip(reason=missing[0]))
        if "exclusive" in names and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(EXCLUSIVE_SECONDS))


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Installation]:
    base = tmp_path_factory.getbasetemp()
    if KUBECONFIG is not None:
        found = {"gateway": GATEWAY} if GATEWAY else {}
        log = Path(AUDIT_LOG) if AUDIT_LOG else None
        say = partial(print_line, pytestconfig)
        with remote_installation(Path(KUBECONFIG), base, say, audit_log=log, overlay=OVERLAY, **found) as made:
            yield made
    elif "PYTEST_XDIST_WORKER" in os.environ:
        with shared_installation(base.parent / "installation", os.getppid()) as made:
            yield made
    else:
        with shared_installation(base / "installation", os.getpid()) as made:
            yield made


def print_line(config: pytest.Config, line: str) -> None:
    """Print a line although the output of tests is captured."""
    capture = config.pluginmanager.get_plugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture is not None else nullcontext():
        print(line, flush=True)


@pytest.fixture
def installation(shared: Installation, request: pytest.FixtureRequest) -> Installation:
    """A running installation. All stories and xdist workers share it, so names must be unique."""
    request.node.stash[USED] = shared
    return shared


@pytest.fixture
def suffix(installation: Installation) -> Iterator[str]:
    """A unique suffix for the names of a story. In a remote cluster, objects with the suffix are deleted afterwards."""
    chosen = uuid.uuid4().hex[:6]
    yield chosen
    if KUBECONFIG is not None:
        installation.cluster.remove_all(chosen)


@pytest.fixture
def exclusive(installation: Installation) -> Iterator[Installation]:
    """The installation for a story that stops replicas: one such story at a time. All replicas run again afterwards."""
    with (installation.directory / "disturbance.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        installation.replicas.wait_until_ready()
        yield installation
        installation.replicas.wait_until_ready()


@pytest.fixture
def trail(exclusive: Installation) -> AuditTrail:
    """The audit log of the cluster."""
    assert exclusive.trail is not None
    return exclusive.trail


@pytest.fixture
def programs(exclusive: Installation) -> LocalReplicas:
    """Replicas that can restart with another program."""
    assert isinstance(exclusive.replicas, LocalReplicas)
    return exclusive.replicas


@pytest.fixture
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Installation]:
    """A new installation, for a story that changes it permanently."""
    with own_installation(tmp_path / "installation") as made:
        request.node.stash[USED] = made
        yield made


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the last log lines of the replicas to the report of a failed story."""
    report = yield
    used = item.stash.get(USED, None)
    if report.failed and used is not None:
        report.sections += [(f"log of {name}", words) for name, words in used.replicas.logs().items()]
    return report
