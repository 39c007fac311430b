"""The installation that stories are about: on a cluster of this machine, or where E2E_KUBECONFIG leads to."""

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
USED = pytest.StashKey[Installation]()
# Fixtures that another cluster cannot give.
LOCAL = {
    "fresh": "this story wants a cluster of its own: run it without --kubeconfig",
    "trail": "the audit log of this cluster is not at hand",
    "programs": "there is no image of a later release",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what cannot run in another cluster before anything is set up for it."""
    for item in items if KUBECONFIG is not None else ():
        missing = [reason for name, reason in LOCAL.items() if name in getattr(item, "fixturenames", ())]
        if missing:
            item.add_marker(pytest.mark.skip(reason=missing[0]))


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Installation]:
    base = tmp_path_factory.getbasetemp()
    if KUBECONFIG is not None:
        with remote_installation(Path(KUBECONFIG), base, partial(print_line, pytestconfig)) as made:
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
    """The product at work. Stories share it, those in other workers of xdist, too: names are each story's own."""
    request.node.stash[USED] = shared
    return shared


@pytest.fixture
def mark(installation: Installation) -> Iterator[str]:
    """What the names of a story end with, so that they are its own. In a cluster that stays, what bears them goes."""
    chosen = uuid.uuid4().hex[:6]
    yield chosen
    if KUBECONFIG is not None:
        installation.cluster.remove_all(chosen)


@pytest.fixture
def disturbed(installation: Installation) -> Iterator[Installation]:
    """The same, for a story that ends replicas of it: one such story at a time. It leaves all of them running."""
    with (installation.directory / "disturbance.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        installation.replicas.settle()
        yield installation
        installation.replicas.settle()


@pytest.fixture
def trail(disturbed: Installation) -> AuditTrail:
    """The audit log of the cluster in which replicas are ended."""
    assert disturbed.trail is not None
    return disturbed.trail


@pytest.fixture
def programs(disturbed: Installation) -> LocalReplicas:
    """Replicas that can run another program in their next lives."""
    assert isinstance(disturbed.replicas, LocalReplicas)
    return disturbed.replicas


@pytest.fixture
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Installation]:
    """An installation that nobody has used, for a story that changes it for good."""
    with own_installation(tmp_path / "installation") as made:
        request.node.stash[USED] = made
        yield made


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the replicas said last beside a story that failed."""
    report = yield
    used = item.stash.get(USED, None)
    if report.failed and used is not None:
        report.sections += [(f"last words of {name}", words) for name, words in used.replicas.logs().items()]
    return report
