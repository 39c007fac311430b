"""The operator as its users meet it: a process with the permissions of its manifest, on a real API server."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpuruntime.control import OFFLINE_CREDENTIALS, Permission
from gpuruntime.testing import AuditLog, ClusterAccess
from gpuruntime.testing.permissions import granted_account, usage
from website.__main__ import build

OWNERS = "jsonpath={range .items[*].metadata.ownerReferences[*]}{.kind}/{.name} {end}"
MANIFESTS = Path(__file__).resolve().parents[1] / "manifests"


def permissions(namespace: str) -> tuple[Permission, ...]:
    """What the operator declares to need, as in its manifest, with replicas that meet in this namespace."""

    async def declared() -> tuple[Permission, ...]:
        return build(OFFLINE_CREDENTIALS, namespace).permissions

    return asyncio.run(declared())


@pytest.fixture
def namespace(kube_cluster: ClusterAccess, kube_namespace: str) -> str:
    """A namespace of a cluster that knows Websites."""
    kube_cluster.kubectl("apply", "-f", str(MANIFESTS / "crds"))
    kube_cluster.kubectl("wait", "crd/websites.example.org", "--for=condition=Established", "--timeout=60s")
    return kube_namespace


@contextmanager
def at_work(cluster: ClusterAccess, namespace: str, directory: Path) -> Iterator[str]:
    """The operator runs, with its permissions and no others; gives its user name. It must end well."""
    log = directory / "operator.log"
    with (
        granted_account(cluster, permissions(namespace), namespace=namespace, directory=directory) as account,
        log.open("w") as output,
    ):
        place = {"KUBECONFIG": str(account.kubeconfig), "POD_NAMESPACE": namespace, "PORT": "0"}
        with subprocess.Popen([sys.executable, "-m", "website"], env={**os.environ, **place}, stderr=output) as process:
            yield account.username
            process.send_signal(signal.SIGTERM)
    assert process.returncode == 0, log.read_text()


@pytest.fixture
def operator(kube_cluster: ClusterAccess, namespace: str, tmp_path: Path) -> Iterator[None]:
    with at_work(kube_cluster, namespace, tmp_path):
        yield


def apply(cluster: ClusterAccess, namespace: str, replicas: int, html: str = "<h1>Shop</h1>") -> None:
    manifest = f"""
apiVersion: example.org/v1
kind: Website
metadata: {{name: shop, namespace: {namespace}}}
spec: {{html: "{html}", replicas: {replicas}}}
"""
    cluster.kubectl("apply", "-f", "-", input_text=manifest)


def wait(cluster: ClusterAccess, namespace: str, what: str, condition: str) -> None:
    cluster.kubectl("wait", what, f"--for={condition}", "--timeout=60s", "-n", namespace)


@pytest.mark.usefixtures("operator")
def test_a_site_is_served_and_follows_its_spec(kube_cluster: ClusterAccess, namespace: str) -> None:
    apply(kube_cluster, namespace, replicas=2)
    wait(kube_cluster, namespace, "website/shop", "condition=Ready")
    apply(kube_cluster, namespace, replicas=3)
    wait(kube_cluster, namespace, "website/shop", "jsonpath={.status.readyReplicas}=3")

    shown = kube_cluster.kubectl("get", "site", "shop", "-n", namespace, "--no-headers").split()
    assert shown == ["shop", "3", "3", "True"]


@pytest.mark.usefixtures("operator")
def test_what_is_changed_or_deleted_by_hand_comes_back(kube_cluster: ClusterAccess, namespace: str) -> None:
    apply(kube_cluster, namespace, replicas=1)
    wait(kube_cluster, namespace, "website/shop", "condition=Ready")

    kube_cluster.kubectl("scale", "deployment/shop", "--replicas=0", "-n", namespace)
    wait(kube_cluster, namespace, "deployment/shop", "jsonpath={.spec.replicas}=1")
    kube_cluster.kubectl("delete", "service/shop", "-n", namespace)
    wait(kube_cluster, namespace, "service/shop", "create")

    children = kube_cluster.kubectl("get", "deployment,service,configmap", "-n", namespace, "-o", OWNERS)
    assert children.split() == ["Website/shop"] * 3


def test_the_api_server_refuses_what_the_types_forbid(kube_cluster: ClusterAccess, namespace: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refusal:
        apply(kube_cluster, namespace, replicas=11)

    assert "should be less than or equal to 10" in refusal.value.stderr


@pytest.mark.usefixtures("operator")
def test_a_foreign_object_is_left_alone_and_reported(kube_cluster: ClusterAccess, namespace: str) -> None:
    kube_cluster.kubectl("create", "configmap", "shop", "--from-literal=mine=yes", "-n", namespace)

    apply(kube_cluster, namespace, replicas=1)
    wait(kube_cluster, namespace, "website/shop", "condition=Ready=False")

    shown = ("-n", namespace, "-o", "jsonpath={.data} {.status.conditions[0].reason}")
    assert kube_cluster.kubectl("get", "configmap", "shop", *shown) == '{"mine":"yes"} '
    assert kube_cluster.kubectl("get", "website", "shop", *shown) == " NameTaken"


def test_its_rights_are_those_that_it_uses(
    kube_cluster: ClusterAccess, namespace: str, kube_audit: AuditLog, tmp_path: Path
) -> None:
    with kube_audit.recording() as seen, at_work(kube_cluster, namespace, tmp_path) as user:
        apply(kube_cluster, namespace, replicas=1)
        wait(kube_cluster, namespace, "website/shop", "condition=Ready")
        apply(kube_cluster, namespace, replicas=1, html="<h1>New</h1>")
        page = "jsonpath={.data.index\\.html}=<h1>New</h1>"
        wait(kube_cluster, namespace, "configmap/shop", page)
        kube_cluster.kubectl("label", "service/shop", "example.org/website=other", "--overwrite", "-n", namespace)
        wait(kube_cluster, namespace, "service/shop", "jsonpath={.metadata.labels.example\\.org/website}=shop")
        wait(kube_cluster, namespace, "website/shop", "condition=Ready")

    found = usage(permissions(namespace), seen.requests, user=user)

    assert found.is_exact, found
