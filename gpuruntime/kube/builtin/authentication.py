"""authentication.k8s.io/v1: TokenReview."""

from attrs import field, frozen

from gpuruntime.meta.frozen_mapping import EMPTY, FrozenDict
from gpuruntime.meta.identity import ResourceKind
from gpuruntime.meta.objects import ObjectMeta, TypedObject
from gpuruntime.meta.structs import Struct, wire

__all__ = ["TokenReview", "TokenReviewSpec", "TokenReviewStatus", "UserInfo"]


@frozen
class TokenReviewSpec(Struct):
    token: str | None = field(default=None, metadata=wire(sensitive=True))
    audiences: tuple[str, ...] = ()


@frozen
class UserInfo(Struct):
    """Who the token belongs to. `attributes` is called "extra" on the wire."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    attributes: FrozenDict[str, tuple[str, ...]] = field(default=EMPTY, metadata=wire("extra"))


@frozen
class TokenReviewStatus(Struct):
    authenticated: bool = False
    user: UserInfo = field(default=UserInfo())
    audiences: tuple[str, ...] = ()
    error: str | None = None


@frozen
class TokenReview(TypedObject):
    """A review: created with a spec, returned with a status, never stored."""

    KIND = ResourceKind("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", namespaced=False)

    metadata: ObjectMeta = field(default=ObjectMeta(), kw_only=True)
    spec: TokenReviewSpec = field(default=TokenReviewSpec())
    status: TokenReviewStatus = field(default=TokenReviewStatus())
