"""resource.k8s.io/v1: ResourceClaim."""

from typing import Any

from attrs import field, frozen

from gpuruntime.meta.frozen_mapping import FrozenDict
from gpuruntime.meta.identity import ResourceKind
from gpuruntime.meta.objects import TypedObject
from gpuruntime.meta.structs import Struct

__all__ = [
    "AllocationResult",
    "DeviceAllocation",
    "DeviceAllocationResult",
    "DeviceClaim",
    "DeviceRequest",
    "ExactDeviceRequest",
    "ResourceClaim",
    "ResourceClaimConsumer",
    "ResourceClaimSpec",
    "ResourceClaimStatus",
]


@frozen
class ExactDeviceRequest(Struct):
    device_class_name: str
    selectors: tuple[FrozenDict[str, Any], ...] = ()
    allocation_mode: str | None = None
    count: int | None = None
    admin_access: bool | None = None


@frozen
class DeviceRequest(Struct):
    name: str
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[FrozenDict[str, Any], ...] = ()


@frozen
class DeviceClaim(Struct):
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[FrozenDict[str, Any], ...] = ()
    config: tuple[FrozenDict[str, Any], ...] = ()


@frozen
class ResourceClaimSpec(Struct):
    devices: DeviceClaim = field(default=DeviceClaim())


@frozen
class DeviceAllocation(Struct):
    """A device that was allocated to a request of the ResourceClaim."""

    request: str
    driver: str
    pool: str
    device: str


@frozen
class DeviceAllocationResult(Struct):
    results: tuple[DeviceAllocation, ...] = ()
    config: tuple[FrozenDict[str, Any], ...] = ()


@frozen
class AllocationResult(Struct):
    devices: DeviceAllocationResult = field(default=DeviceAllocationResult())
    node_selector: FrozenDict[str, Any] | None = None


@frozen
class ResourceClaimConsumer(Struct):
    resource: str
    name: str
    uid: str
    api_group: str = ""


@frozen
class ResourceClaimStatus(Struct):
    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumer, ...] = ()


@frozen
class ResourceClaim(TypedObject):
    KIND = ResourceKind("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", namespaced=True)

    spec: ResourceClaimSpec = field(default=ResourceClaimSpec())
    status: ResourceClaimStatus = field(default=ResourceClaimStatus())
