"""What single fields promise beyond their names and types, which `test_builtin.py` checks for all kinds."""

from typing import Any

import pytest

from gpuruntime.kube.builtin.authentication import TokenReview, TokenReviewSpec
from gpuruntime.kube.builtin.authorization import SubjectAccessReview
from gpuruntime.kube.builtin.containers import Container, EnvVar, ResourceRequirements
from gpuruntime.kube.builtin.core import Secret
from gpuruntime.kube.builtin.networking import NetworkPolicyIngressRule, NetworkPolicySpec
from gpuruntime.kube.builtin.scheduling import PriorityClass
from gpuruntime.kube.builtin.volumes import EmptyDirVolumeSource, Volume
from gpuruntime.meta.codec import DecodeError, decode, encode
from gpuruntime.meta.frozen_mapping import FrozenDict
from gpuruntime.meta.objects import ObjectMeta
from gpuruntime.meta.quantities import parse_quantity


@pytest.mark.parametrize(
    "value",
    [
        EnvVar("PASSWORD", "hunter2"),
        Secret(ObjectMeta(name="s"), data=FrozenDict(password="hunter2")),
        TokenReview(TokenReviewSpec("hunter2", audiences=("runtime",))),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_repr_hides_what_is_confidential(value: object) -> None:
    assert "hunter2" not in repr(value)


@pytest.mark.parametrize(
    ("kind", "wire", "where"),
    [
        (Container, {"name": "main", "env": [{"name": "PIN", "value": 123456}]}, "$.env[0].value"),
        (Secret, {"metadata": {"name": "s", "namespace": "ns"}, "data": {"pin": 123456}}, "$.data.pin"),
    ],
)
def test_a_confidential_value_of_the_wrong_type_is_named_and_not_shown(kind: Any, wire: Any, where: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(kind, wire)

    assert where in str(caught.value)
    assert "123456" not in str(caught.value)


def test_what_the_wire_calls_extra_is_not_confused_with_unknown_fields() -> None:
    user = {"username": "system:serviceaccount:ns:sa", "extra": {"example.org/pod": ["p"]}, "future": 1}
    wire = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "metadata": {},
        "status": {"authenticated": True, "user": user},
    }

    review = decode(TokenReview, wire)

    assert review.status.user.attributes == {"example.org/pod": ("p",)}
    assert review.status.user.extra == {"future": 1}
    assert encode(review) == wire


def test_a_review_without_a_verdict_is_denied() -> None:
    assert not SubjectAccessReview().status.allowed
    assert not decode(TokenReview, {}).status.authenticated


def test_the_value_of_a_priority_class_is_written_even_if_it_is_zero() -> None:
    assert encode(PriorityClass(ObjectMeta(name="stock"), 0))["value"] == 0


def test_a_network_rule_that_allows_everything_differs_from_no_rule() -> None:
    everything: dict[str, Any] = {"podSelector": {}, "ingress": [{}]}
    nothing: dict[str, Any] = {"podSelector": {}, "ingress": None}

    assert encode(decode(NetworkPolicySpec, everything)) == everything
    assert encode(decode(NetworkPolicySpec, nothing)) == nothing
    assert decode(NetworkPolicySpec, everything).ingress == (NetworkPolicyIngressRule(),)


def test_an_empty_volume_source_is_present_and_not_absent() -> None:
    assert decode(Volume, {"name": "v", "emptyDir": {}}).empty_dir == EmptyDirVolumeSource()
    assert decode(Volume, {"name": "v"}).empty_dir is None


def test_resources_hold_texts_and_unquoted_numbers() -> None:
    wire = {"limits": {"cpu": 2, "memory": "1.5Gi", "nvidia.com/gpu": "1"}}

    resources = decode(ResourceRequirements, wire)

    assert parse_quantity(resources.limits["cpu"]) == parse_quantity("2000m")
    assert parse_quantity(resources.limits["memory"]).ceil() == 1536 * 1024**2
    assert encode(resources) == wire
