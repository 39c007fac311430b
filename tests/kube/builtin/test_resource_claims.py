from gpuruntime.kube.builtin.resource_claims import (
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from gpuruntime.meta.codec import decode, encode
from gpuruntime.meta.objects import ObjectMeta


def test_a_resource_claim_is_encoded_as_the_api_expects() -> None:
    request = DeviceRequest("gpu", ExactDeviceRequest("gpu.example.org", allocation_mode="ExactCount", count=2))

    encoded = encode(ResourceClaim(ObjectMeta(name="c"), ResourceClaimSpec(DeviceClaim((request,)))))

    exactly = {"deviceClassName": "gpu.example.org", "allocationMode": "ExactCount", "count": 2}
    assert encoded["spec"] == {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


def test_an_allocated_resource_claim_has_devices_and_consumers() -> None:
    result = {"request": "gpu", "driver": "gpu.example.org", "pool": "node-1", "device": "gpu-0", "adminAccess": None}
    wire = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "ns"},
        "spec": {"devices": {"requests": [{"name": "gpu", "firstAvailable": [{"name": "big"}]}]}},
        "status": {
            "allocation": {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": []}},
            "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
        },
    }

    claim = decode(ResourceClaim, wire)

    assert claim.status.allocation is not None
    assert [device.device for device in claim.status.allocation.devices.results] == ["gpu-0"]
    assert claim.status.reserved_for[0].name == "p"
    assert encode(claim) == wire
