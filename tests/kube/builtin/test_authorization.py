from gpuruntime.kube.builtin.authorization import ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec
from gpuruntime.meta.codec import decode, encode
from gpuruntime.meta.frozen_mapping import FrozenDict


def test_an_access_review_is_encoded_as_the_api_expects() -> None:
    attributes = ResourceAttributes(verb="get", group="apps", resource="deployments", namespace="ns")
    spec = SubjectAccessReviewSpec(attributes, user="u", groups=("g",), attributes=FrozenDict({"k": ("v",)}))

    assert encode(SubjectAccessReview(spec))["spec"] == {
        "resourceAttributes": {"verb": "get", "group": "apps", "resource": "deployments", "namespace": "ns"},
        "user": "u",
        "groups": ["g"],
        "extra": {"k": ["v"]},
    }


def test_a_review_without_a_verdict_is_denied() -> None:
    silent = decode(SubjectAccessReview, {"spec": {}, "status": {"allowed": False, "reason": "no rule"}})
    allowed = decode(SubjectAccessReview, {"spec": {}, "status": {"allowed": True}})

    assert (SubjectAccessReview().status.allowed, silent.status.allowed, allowed.status.allowed) == (False, False, True)
