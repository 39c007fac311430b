from gpuruntime.kube.builtin.authorization import ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec
from gpuruntime.meta.codec import decode, encode
from gpuruntime.meta.frozen_mapping import FrozenDict


def test_a_question_about_access_is_written_as_the_api_wants_it() -> None:
    attributes = ResourceAttributes(verb="get", group="apps", resource="deployments", namespace="ns")
    spec = SubjectAccessReviewSpec(attributes, user="u", groups=("g",), attributes=FrozenDict({"k": ("v",)}))

    assert encode(SubjectAccessReview(spec))["spec"] == {
        "resourceAttributes": {"verb": "get", "group": "apps", "resource": "deployments", "namespace": "ns"},
        "user": "u",
        "groups": ["g"],
        "extra": {"k": ["v"]},
    }


def test_an_answer_without_a_word_is_a_no() -> None:
    silent = decode(SubjectAccessReview, {"spec": {}, "status": {"allowed": False, "reason": "no rule"}})
    allowed = decode(SubjectAccessReview, {"spec": {}, "status": {"allowed": True}})

    assert (SubjectAccessReview().status.allowed, silent.status.allowed, allowed.status.allowed) == (False, False, True)
