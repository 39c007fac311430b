"""Validation of storages by a real API server, with the CRD generated from the type."""

from typing import Any

import pytest

from gpuruntime.testing import AdminClient, ClusterAccess, RefusedError

PATH = "/apis/runtime.lokiwager.io/v1alpha1/namespaces/{}/gpustorages"
FROM_IMAGE = {"fromImage": "tool:1", "args": ["--fill"]}


def create(admin: AdminClient, namespace: str, name: str = "data", query: str = "", **spec: Any) -> dict[str, Any]:
    body = {
        "apiVersion": "runtime.lokiwager.io/v1alpha1",
        "kind": "GPUStorage",
        "metadata": {"name": name},
        "spec": {"size": "10Gi", **spec},
    }
    created: dict[str, Any] = admin.create(f"{PATH.format(namespace)}?fieldValidation=Strict{query}", body)
    return created


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"size": "plenty"}, "spec.size"),
        ({"size": "0"}, "spec.size"),
        ({"size": "-1Gi"}, "spec.size"),
        ({"storageClassName": ""}, "spec.storageClassName"),
        ({"accessMode": "ReadOnlyMany"}, "spec.accessMode"),
        ({"prepare": {}}, "exactly one of fromImage and fromStorageName"),
        ({"prepare": {**FROM_IMAGE, "fromStorageName": "other"}}, "exactly one of fromImage and fromStorageName"),
        ({"prepare": {"fromImage": "tool:1"}}, "fromImage needs command or args"),
        ({"prepare": {"fromStorageName": "other", "args": ["x"]}}, "fromStorageName takes neither command nor args"),
        ({"prepare": {"fromStorageName": "a.b"}}, "spec.prepare.fromStorageName"),
        ({"prepare": {"fromStorageName": "data"}}, "must be another storage"),
        ({"prepare": {**FROM_IMAGE, "args": ["a\0"]}}, "spec.prepare.args"),
        ({"adoptClaimUID": "not a UID"}, "spec.adoptClaimUID"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_invalid_storage_is_rejected_with_the_reason(
    product: ClusterAccess, kube_namespace: str, spec: dict[str, Any], words: str
) -> None:
    with pytest.raises(RefusedError) as refused:
        create(product.admin(), kube_namespace, query="&dryRun=All", **spec)

    assert refused.value.status == 422
    assert words in str(refused.value)


@pytest.mark.parametrize("name", ["a.b", "a" * 64])
def test_the_name_of_a_storage_is_a_dns_label(product: ClusterAccess, kube_namespace: str, name: str) -> None:
    with pytest.raises(RefusedError, match="must be a DNS label"):
        create(product.admin(), kube_namespace, name, query="&dryRun=All")

    assert create(product.admin(), kube_namespace, "a" * 63, query="&dryRun=All")


def test_class_mode_and_preparation_are_immutable_and_the_rest_is_not(
    product: ClusterAccess, kube_namespace: str
) -> None:
    admin = product.admin()
    create(admin, kube_namespace, storageClassName="fast", prepare=FROM_IMAGE)
    create(admin, kube_namespace, "plain")
    full, plain = (f"{PATH.format(kube_namespace)}/{name}" for name in ("data", "plain"))
    refused = [
        *(
            (full, {field: value})
            for field in ("storageClassName", "prepare")
            for value in (None, {"args": ["y"]}, "b")
        ),
        (full, {"accessMode": "ReadWriteMany"}),
        (plain, {"storageClassName": "fast"}),
        (plain, {"prepare": FROM_IMAGE}),
    ]

    for path, change in refused:
        with pytest.raises(RefusedError) as error:
            admin.merge(path, {"spec": change})
        assert error.value.status == 422
    changed = admin.merge(
        full, {"spec": {"size": "20Gi", "accessor": {"enabled": True}, "volumeAttributesClassName": "gold"}}
    )

    assert (changed["spec"]["size"], changed["metadata"]["generation"]) == ("20Gi", 2)
    assert changed["spec"]["accessMode"] == "ReadWriteOnce"


def test_a_size_falls_to_the_capacity_and_not_below_it(product: ClusterAccess, kube_namespace: str) -> None:
    admin = product.admin()
    create(admin, kube_namespace, size="20Gi")
    path = f"{PATH.format(kube_namespace)}/data"
    unbound = admin.merge(path, {"spec": {"size": "15Gi"}})

    admin.merge(f"{path}/status", {"status": {"capacity": "10Gi"}})
    fallen = admin.merge(path, {"spec": {"size": "10Gi"}})
    with pytest.raises(RefusedError, match="a volume cannot shrink"):
        admin.merge(path, {"spec": {"size": "9Gi"}})

    assert (unbound["spec"]["size"], fallen["spec"]["size"]) == ("15Gi", "10Gi")


def test_a_volume_that_is_larger_than_requested_can_be_recorded_and_grows(
    product: ClusterAccess, kube_namespace: str
) -> None:
    admin = product.admin()
    create(admin, kube_namespace, size="1500Mi")
    path = f"{PATH.format(kube_namespace)}/data"

    recorded = admin.merge(f"{path}/status", {"status": {"capacity": "2Gi"}})
    relabelled = admin.merge(path, {"metadata": {"labels": {"team": "a"}}})
    grown = admin.merge(path, {"spec": {"size": "1700Mi"}})

    assert recorded["status"]["capacity"] == "2Gi"
    assert (relabelled["metadata"]["labels"], grown["spec"]["size"]) == ({"team": "a"}, "1700Mi")
