"""A real API server accepts every overlay, and its workloads become available."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuruntime.testing import ClusterAccess, LocalCluster
from tests.manifests.rendered import FUNCTIONS, MANIFESTS, OVERLAYS

UPSTREAM = Path(__file__).resolve().parent / "upstream"
SYSTEM = "gpuruntime-system"


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterAccess]:
    """A cluster with the CRDs of the Prometheus operator, without our product."""
    with LocalCluster() as started:
        access = started.access
        access.kubectl("create", "--filename", str(UPSTREAM))
        access.kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=60s")
        yield access


DIRECTORIES = {**{name: MANIFESTS / "overlays" / name for name in OVERLAYS}, "functions": FUNCTIONS}


def apply(cluster: ClusterAccess, overlay: str) -> dict[str, str]:
    """Install an overlay as users do; returns the result for each object. A server warning is an error."""
    source = str(DIRECTORIES[overlay])
    said = cluster.kubectl("apply", "--kustomize", source, "--validate=strict", "--warnings-as-errors")
    return dict(line.rsplit(" ", 1) for line in said.splitlines())


def generations(cluster: ClusterAccess, overlay: str) -> dict[str, int]:
    """The generation of each object that has one."""
    found = json.loads(cluster.kubectl("get", "--kustomize", str(DIRECTORIES[overlay]), "--output=json"))
    metadata = [item["metadata"] for item in found["items"]]
    return {item["uid"]: item["generation"] for item in metadata if "generation" in item}


@pytest.mark.parametrize("overlay", DIRECTORIES)
def test_applying_an_overlay_twice_changes_nothing(cluster: ClusterAccess, overlay: str) -> None:
    first = apply(cluster, overlay)
    before = generations(cluster, overlay)

    again = apply(cluster, overlay)

    changed = {name for name, became in again.items() if became != "unchanged"}
    # kubectl always sends the selector of a PodDisruptionBudget, because it can only be replaced as a whole.
    assert all(name.startswith("poddisruptionbudget.policy/") for name in changed)
    assert generations(cluster, overlay) == before
    assert len(again) == len(first) > 20


def test_production_is_spread_over_nodes_and_tolerates_one_disruption(cluster: ClusterAccess) -> None:
    apply(cluster, "production")

    for name in ("gpuruntime-controller-manager", "gpuruntime-runtime-api"):
        cluster.kubectl("rollout", "status", f"deployment/{name}", "--namespace", SYSTEM, "--timeout=60s")
        allowed = "--for=jsonpath={.status.disruptionsAllowed}=1"
        cluster.kubectl("wait", f"pdb/{name}", allowed, "--namespace", SYSTEM, "--timeout=60s")

    for name, replicas in (("gpuruntime-controller-manager", 2), ("gpuruntime-runtime-api", 3)):
        selector = f"app.kubernetes.io/name={name}"
        pods = json.loads(cluster.kubectl("get", "pods", "-n", SYSTEM, "-l", selector, "-o", "json"))["items"]
        running = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        assert len({pod["spec"]["nodeName"] for pod in running}) == len(running) == replicas


def test_a_privileged_pod_is_rejected_in_the_system_namespace(cluster: ClusterAccess) -> None:
    cluster.kubectl("apply", "--kustomize", str(MANIFESTS / "platform"))
    command = ("run", "root", "--image=gpuruntime:dev", "--namespace", SYSTEM, "--dry-run=server")

    with pytest.raises(Exception, match="status 1") as refused:
        cluster.kubectl(*command)

    assert 'violates PodSecurity "restricted' in str(refused.value.__notes__)
