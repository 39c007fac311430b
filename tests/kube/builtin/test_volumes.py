from typing import Any

import pytest

from gpuruntime.kube.builtin.volumes import EmptyDirVolumeSource, PersistentVolumeClaim, Volume
from gpuruntime.meta.codec import decode, encode


@pytest.mark.parametrize(
    "wire",
    [
        {"name": "v", "emptyDir": {}},
        {"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
        {"name": "v", "configMap": {"name": "c", "defaultMode": 420, "items": [{"key": "k", "path": "p"}]}},
        {"name": "v", "secret": {"secretName": "s", "optional": True}},
        {"name": "v", "hostPath": {"path": "/dev", "type": ""}},
        {"name": "v", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "v", "csi": {"driver": "example.org"}},
    ],
)
def test_a_volume_of_any_source_round_trips(wire: dict[str, Any]) -> None:
    assert encode(decode(Volume, wire)) == wire


def test_an_empty_source_is_present_and_not_absent() -> None:
    assert decode(Volume, {"name": "v", "emptyDir": {}}).empty_dir == EmptyDirVolumeSource()
    assert decode(Volume, {"name": "v"}).empty_dir is None


def test_a_persistent_volume_claim_is_read_with_request_and_capacity() -> None:
    wire = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "ns"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "volumeMode": "Block",
        },
        "status": {"phase": "Bound", "capacity": {"storage": "2Gi"}},
    }

    claim = decode(PersistentVolumeClaim, wire)

    assert (claim.status.phase, claim.status.capacity["storage"]) == ("Bound", "2Gi")
    assert claim.spec.resources is not None
    assert claim.spec.resources.requests == {"storage": "1Gi"}
    assert encode(claim) == wire
