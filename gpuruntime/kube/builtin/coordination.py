"""coordination.k8s.io/v1: Lease."""

from attrs import field, frozen

from gpuruntime.meta.identity import ResourceKind
from gpuruntime.meta.objects import TypedObject
from gpuruntime.meta.structs import Struct

__all__ = ["Lease", "LeaseSpec"]


@frozen
class LeaseSpec(Struct):
    """Times have microseconds on the wire; write them with `format_micros`."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


@frozen
class Lease(TypedObject):
    KIND = ResourceKind("coordination.k8s.io", "v1", "Lease", "leases", namespaced=True)

    spec: LeaseSpec = field(default=LeaseSpec())
