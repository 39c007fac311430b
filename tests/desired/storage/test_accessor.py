from typing import Any

import pytest

from gpuruntime.api.gpustorage import (
    READ_WRITE_MANY,
    READ_WRITE_ONCE,
    READ_WRITE_ONCE_POD,
    GPUStorage,
    GPUStorageSpec,
)
from gpuruntime.api.names import ATTACHED_TO
from gpuruntime.desired.storage.accessor import (
    AccessorRendering,
    accessor_deployment,
    accessor_name,
    accessor_path,
    accessor_service,
    gives_way,
)
from gpuruntime.meta import FrozenDict, ObjectMeta, encode, is_dns_label

RENDERING = AccessorRendering("gpuruntime:1", ("key-one", "key-two"))


def storage(mode: str = READ_WRITE_ONCE, holder: str = "", name: str = "data") -> GPUStorage:
    annotations = FrozenDict({ATTACHED_TO: holder} if holder else {})
    metadata = ObjectMeta(name=name, namespace="ns", uid="the-uid", annotations=annotations)
    return GPUStorage(metadata=metadata, spec=GPUStorageSpec("1Gi", access_mode=mode))


def pod_of(made: GPUStorage) -> dict[str, Any]:
    pod: dict[str, Any] = encode(accessor_deployment(made, RENDERING))["spec"]["template"]["spec"]
    return pod


@pytest.mark.parametrize(
    ("mode", "holder", "excluded_by"),
    [
        (READ_WRITE_ONCE, "", ""),
        (READ_WRITE_ONCE, "gpuunits/demo", ""),
        (READ_WRITE_ONCE, "gpustorages/copy", "gpustorages/copy"),
        (READ_WRITE_ONCE_POD, "", ""),
        (READ_WRITE_ONCE_POD, "gpuunits/demo", "gpuunits/demo"),
        (READ_WRITE_ONCE_POD, "gpustorages/copy", "gpustorages/copy"),
        (READ_WRITE_MANY, "gpuunits/demo", ""),
        (READ_WRITE_MANY, "gpustorages/copy", ""),
    ],
)
def test_the_accessor_gives_way_to_who_needs_the_volume_alone(mode: str, holder: str, excluded_by: str) -> None:
    assert gives_way(storage(mode, holder)) == excluded_by


def test_beside_a_unit_it_runs_on_the_node_of_the_unit_and_only_there() -> None:
    followed = pod_of(storage(holder="gpuunits/demo"))
    free = [pod_of(storage()), pod_of(storage(READ_WRITE_MANY, "gpuunits/demo"))]

    terms = followed["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert terms == [
        {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"runtime.lokiwager.io/unit": "demo"}},
        }
    ]
    assert not any("affinity" in pod for pod in free)


def test_it_reads_this_very_storage_and_can_do_nothing_else() -> None:
    pod = pod_of(storage())
    container = pod["containers"][0]

    assert pod["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data", "readOnly": True}}]
    assert container["volumeMounts"] == [{"name": "data", "mountPath": "/data", "readOnly": True}]
    assert {"--audience=the-uid", "--public-key=key-one", "--public-key=key-two"} < {*container["args"]}
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_deployment_and_service_have_one_name_and_select_each_other() -> None:
    deployment = encode(accessor_deployment(storage(), RENDERING))
    service = encode(accessor_service(storage()))

    assert deployment["metadata"]["name"] == service["metadata"]["name"] == "storage-accessor-data"
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert deployment["spec"]["selector"]["matchLabels"] == service["spec"]["selector"]
    assert accessor_path(storage()) == "/storage/ns/data/"


def test_long_names_are_shortened_and_stay_apart() -> None:
    names = ["a" * 46, "a" * 47, "a" * 63, "a" * 62 + "b", "a" * 34 + "-" + "b" * 20]

    made = [accessor_name(name) for name in names]

    assert made[0] == f"storage-accessor-{'a' * 46}"
    assert len(set(made)) == len(names)
    assert all(is_dns_label(name) for name in made)
