"""The admission policies of storages, tried by accounts of all sorts on a real API server."""

import json
import subprocess
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import pytest

from gpuruntime.api.names import ATTACHED_TO, OWNER_UID, PREPARED, STORAGE_LABEL
from gpuruntime.desired.storage.locks import LOCK_ANNOTATIONS
from gpuruntime.testing import ClusterAccess, LocalCluster
from tests.manifests.rendered import MANIFESTS

ADMIN = ()
TENANT = ("--as=tenant",)
CONTROLLER = "system:serviceaccount:gpuruntime-system:gpuruntime-controller-manager"
PRODUCT = (f"--as={CONTROLLER}", "--as-group=system:serviceaccounts:gpuruntime-system")
HOLDER = "gpuunits/demo"
# The label of the product's namespaces, in which the policies hold.
PROTECTED = "app.kubernetes.io/part-of=gpuruntime"
STORAGES = "gpustorages.runtime.lokiwager.io"


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterAccess]:
    """A cluster with the kinds and the policies, in which a tenant and the product may do everything by RBAC."""
    with LocalCluster() as started:
        access = started.access
        for part in ("crds", "platform"):
            access.kubectl("apply", "--kustomize", str(MANIFESTS / part))
        access.kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=60s")
        users = ("--user=tenant", f"--user={CONTROLLER}")
        access.kubectl("create", "clusterrolebinding", "everybody", "--clusterrole=cluster-admin", *users)
        access.kubectl("label", "namespace", "default", PROTECTED)
        fill(access, "default")
        # An API server enforces a policy when its cache has it.
        for probe in (
            ("delete", STORAGES, "data"),
            ("annotate", STORAGES, "free", f"{ATTACHED_TO}=x"),
            ("delete", "pvc", "data"),
        ):
            while not refusal(access, *probe, "--dry-run=server", "--namespace=default", *TENANT):
                pass
        yield access


@pytest.fixture
def namespace(cluster: ClusterAccess, request: pytest.FixtureRequest) -> str:
    """A namespace of the test, filled."""
    name = f"space-{sha256(request.node.name.encode()).hexdigest()[:8]}"
    cluster.kubectl("create", "namespace", name)
    cluster.kubectl("label", "namespace", name, PROTECTED)
    fill(cluster, name)
    return name


def fill(cluster: ClusterAccess, namespace: str) -> None:
    """Create a locked storage with its volume, a free storage, and a volume that is of no storage."""
    admin = cluster.admin()
    storages = f"/apis/runtime.lokiwager.io/v1alpha1/namespaces/{namespace}/gpustorages"
    admin.create(storages, storage("data", **{ATTACHED_TO: HOLDER}))
    admin.create(storages, storage("free"))
    claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    admin.create(claims, claim("data", {STORAGE_LABEL: "data"}, {OWNER_UID: "u1", PREPARED: "digest"}))
    admin.create(claims, claim("other", {}, {}))


def storage(name: str, **annotations: str) -> dict[str, Any]:
    kind = {"apiVersion": "runtime.lokiwager.io/v1alpha1", "kind": "GPUStorage"}
    return {**kind, "metadata": {"name": name, "annotations": annotations}, "spec": {"size": "1Gi"}}


def claim(name: str, labels: dict[str, str], annotations: dict[str, str]) -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "none", "resources": {"requests": {"storage": "1Gi"}}}
    metadata = {"name": name, "labels": labels, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def refusal(cluster: ClusterAccess, *command: str) -> str:
    """The words by which a command of kubectl is refused, "" if it succeeds."""
    try:
        cluster.kubectl(*command)
    except subprocess.CalledProcessError as error:
        return " ".join([str(error), *getattr(error, "__notes__", ())])
    return ""


def test_nobody_deletes_a_storage_that_is_in_use(cluster: ClusterAccess, namespace: str) -> None:
    delete = ("delete", STORAGES, "--namespace", namespace)

    refused = [refusal(cluster, *delete, "data", *account) for account in (ADMIN, TENANT, PRODUCT)]
    collection = f"/apis/runtime.lokiwager.io/v1alpha1/namespaces/{namespace}/gpustorages"
    together = refusal(cluster, "delete", "--raw", collection)
    cluster.kubectl("annotate", STORAGES, "data", f"{ATTACHED_TO}-", "--namespace", namespace)
    freed = refusal(cluster, *delete, "data", *TENANT)

    words = f"storage {namespace}/data is in use by {HOLDER}; delete that first"
    assert [words in text for text in refused] == [True] * 3
    assert words in together
    assert freed == ""


def test_kubectl_deletes_no_storage_that_units_share_without_a_lock(cluster: ClusterAccess, namespace: str) -> None:
    delete = ("delete", STORAGES, "free", "--namespace", namespace)
    status = ("patch", STORAGES, "free", "--namespace", namespace, "--subresource=status", "--type=merge")
    cluster.kubectl(*status, "--patch", json.dumps({"status": {"mountedBy": ["one", "two"]}}))

    refused = [refusal(cluster, *delete, *account) for account in (ADMIN, TENANT)]
    by_product = refusal(cluster, *delete, "--dry-run=server", *PRODUCT)
    cluster.kubectl(*status, "--patch", json.dumps({"status": {"mountedBy": []}}))
    freed = refusal(cluster, *delete, *TENANT)

    words = f"storage {namespace}/free is mounted by units one, two; delete them, or take the mount out of them"
    assert [words in text for text in refused] == [True] * 2
    assert (by_product, freed) == ("", "")


def test_a_lock_is_written_by_the_product_and_repaired_by_administrators(
    cluster: ClusterAccess, namespace: str
) -> None:
    annotate = ("annotate", "--overwrite", STORAGES, "--namespace", namespace)

    meddled = [refusal(cluster, *annotate, "free", f"{name}=x", *TENANT) for name in LOCK_ANNOTATIONS]
    stolen = refusal(cluster, *annotate, "data", f"{ATTACHED_TO}-", *TENANT)
    harmless = refusal(cluster, *annotate, "data", "team=a", *TENANT)
    taken = refusal(cluster, *annotate, "free", f"{ATTACHED_TO}={HOLDER}", *PRODUCT)
    repaired = refusal(cluster, *annotate, "data", f"{ATTACHED_TO}-", *ADMIN)

    assert [("are the lock of the storage" in text) for text in (*meddled, stolen)] == [True] * 6
    assert (harmless, taken, repaired) == ("", "", "")


def test_the_volume_of_a_storage_and_its_marks_are_left_to_the_product(cluster: ClusterAccess, namespace: str) -> None:
    here = ("--namespace", namespace)

    refused = [
        refusal(cluster, "delete", "pvc", "data", *here, *TENANT),
        refusal(cluster, "annotate", "pvc", "data", f"{PREPARED}-", *here, *TENANT),
        refusal(cluster, "annotate", "--overwrite", "pvc", "data", f"{OWNER_UID}=other", *here, *TENANT),
        refusal(cluster, "label", "pvc", "data", f"{STORAGE_LABEL}-", *here, *TENANT),
    ]
    allowed = [
        refusal(cluster, "label", "pvc", "data", "team=a", *here, *TENANT),
        refusal(cluster, "delete", "pvc", "other", *here, *TENANT),
        refusal(cluster, "annotate", "--overwrite", "pvc", "data", f"{PREPARED}=other", *here, *PRODUCT),
        refusal(cluster, "delete", "pvc", "data", *here, *PRODUCT),
    ]

    assert "the data of storage data is on this PersistentVolumeClaim; delete the storage instead" in refused[0]
    assert ["only the product writes" in text for text in refused[1:]] == [True] * 3
    assert allowed == [""] * 4


def test_a_namespace_is_deleted_with_storages_that_are_in_use(cluster: ClusterAccess, namespace: str) -> None:
    cluster.kubectl("delete", "namespace", namespace, "--timeout=120s")

    left = json.loads(cluster.kubectl("get", f"{STORAGES},pvc", "--namespace", namespace, "--output=json"))["items"]
    assert left == []


def test_the_policies_hold_in_the_namespaces_of_the_product_only(cluster: ClusterAccess) -> None:
    cluster.kubectl("create", "namespace", "elsewhere")
    fill(cluster, "elsewhere")

    words = [
        refusal(cluster, "annotate", STORAGES, "free", f"{ATTACHED_TO}=x", "--namespace=elsewhere", *TENANT),
        refusal(cluster, "delete", STORAGES, "data", "--namespace=elsewhere", *TENANT),
        refusal(cluster, "delete", "pvc", "data", "--namespace=elsewhere", *TENANT),
    ]

    assert words == [""] * 3
