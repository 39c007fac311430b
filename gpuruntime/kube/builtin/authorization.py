"""authorization.k8s.io/v1: SubjectAccessReview."""

from attrs import field, frozen

from gpuruntime.meta.frozen_mapping import EMPTY, FrozenDict
from gpuruntime.meta.identity import ResourceKind
from gpuruntime.meta.objects import ObjectMeta, TypedObject
from gpuruntime.meta.structs import Struct, wire

__all__ = [
    "NonResourceAttributes",
    "ResourceAttributes",
    "SubjectAccessReview",
    "SubjectAccessReviewSpec",
    "SubjectAccessReviewStatus",
]


@frozen
class ResourceAttributes(Struct):
    verb: str | None = None
    group: str | None = None
    version: str | None = None
    resource: str | None = None
    subresource: str | None = None
    namespace: str | None = None
    name: str | None = None


@frozen
class NonResourceAttributes(Struct):
    path: str | None = None
    verb: str | None = None


@frozen
class SubjectAccessReviewSpec(Struct):
    """Exactly one kind of attributes must be set. `attributes` of the user is called "extra" on the wire."""

    resource_attributes: ResourceAttributes | None = None
    non_resource_attributes: NonResourceAttributes | None = None
    user: str | None = None
    uid: str | None = None
    groups: tuple[str, ...] = ()
    attributes: FrozenDict[str, tuple[str, ...]] = field(default=EMPTY, metadata=wire("extra"))


@frozen
class SubjectAccessReviewStatus(Struct):
    allowed: bool = False
    denied: bool = False
    reason: str | None = None
    evaluation_error: str | None = None


@frozen
class SubjectAccessReview(TypedObject):
    """A review: created with a spec, returned with a status, never stored."""

    KIND = ResourceKind("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False)

    metadata: ObjectMeta = field(default=ObjectMeta(), kw_only=True)
    spec: SubjectAccessReviewSpec = field(default=SubjectAccessReviewSpec())
    status: SubjectAccessReviewStatus = field(default=SubjectAccessReviewStatus())
