"""A cluster leaves nothing but a given directory on the machine, however it ends."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hack.dev.dockerfile_build import why_not
from tests.testing.cluster.overlaid_machine import leftovers

# The default directories of the Kubernetes components.
DEFAULT_DIRECTORIES = (
    Path("/usr/libexec/kubernetes"),
    Path("/run/kubernetes"),
    Path.home() / ".kube",
    Path.home() / ".kwok",
)
USE = """
import sys
from pathlib import Path
from gpuruntime.testing import FakeNodes, LocalCluster, NodeShape

directory = Path(sys.argv[1])
with LocalCluster(directory, audit=True) as cluster:
    access = cluster.access
    access.kubectl("create", "deployment", "web", "--image=web")
    access.kubectl("wait", "deploy/web", "--for=condition=Available", "--timeout=60s")
    with FakeNodes(directory / "played", access.kubeconfig, (NodeShape("played"),), access.binaries):
        access.kubectl("get", "nodes")
"""
OWN = """
import sys
from gpuruntime.testing import LocalCluster

with LocalCluster(nodes=()) as cluster:
    print(cluster.access.kubeconfig.parent / "lock", flush=True)
    sys.stdin.read()
"""
SHARED = """
import os, sys
from pathlib import Path
from gpuruntime.testing.cluster.shared import SharedCluster

directory = Path(sys.argv[1]) / "shared"
SharedCluster(directory, os.getpid()).start()
print(directory / "runner.pid", flush=True)
sys.stdin.read()
"""


def test_nothing_is_written_outside_of_the_directory_of_a_cluster(tmp_path: Path) -> None:
    reason = why_not()
    if reason is not None:
        pytest.skip(f"what is written cannot be seen here: {reason}")
    stage, directory = tmp_path / "stage", tmp_path / "cluster"
    stage.mkdir()

    left = leftovers(USE, str(directory), stage=stage, hidden=DEFAULT_DIRECTORIES)

    assert left == [directory]


def test_a_cluster_that_was_never_started_has_created_nothing(tmp_path: Path) -> None:
    program = "from gpuruntime.testing import LocalCluster; LocalCluster()"

    subprocess.run([sys.executable, "-c", program], env={**os.environ, "TMPDIR": str(tmp_path)}, check=True)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("program", [pytest.param(OWN, id="its own"), pytest.param(SHARED, id="that of a test run")])
def test_the_temporary_directory_of_a_cluster_is_removed_even_if_its_owner_is_killed(
    tmp_path: Path, program: str
) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with owner:
        assert owner.stdout is not None
        lock = Path(owner.stdout.readline().strip())

        with lock.open() as held:
            owner.kill()
            fcntl.flock(held, fcntl.LOCK_EX)  # free when the last process of the cluster has ended

    assert list(tmp_path.iterdir()) == []
