from typing import Any

from gpuruntime.kube.builtin.networking import (
    IPBlock,
    NetworkPolicy,
    NetworkPolicyEgressRule,
    NetworkPolicyIngressRule,
    NetworkPolicyPeer,
    NetworkPolicyPort,
    NetworkPolicySpec,
)
from gpuruntime.meta.codec import decode, encode
from gpuruntime.meta.label_selectors import LabelSelector
from gpuruntime.meta.objects import ObjectMeta


def test_names_that_are_keywords_in_python_are_written_without_the_underscore() -> None:
    block = IPBlock("10.0.0.0/8", except_=("10.1.0.0/16",))
    spec = NetworkPolicySpec(
        policy_types=("Ingress", "Egress"),
        ingress=(NetworkPolicyIngressRule(from_=(NetworkPolicyPeer(pod_selector=LabelSelector()),)),),
        egress=(NetworkPolicyEgressRule((NetworkPolicyPeer(ip_block=block),), (NetworkPolicyPort("TCP", "https"),)),),
    )

    encoded = encode(NetworkPolicy(ObjectMeta(name="p"), spec))

    assert encoded["spec"] == {
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": [{"podSelector": {}}]}],
        "egress": [
            {
                "to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}],
                "ports": [{"protocol": "TCP", "port": "https"}],
            }
        ],
    }
    assert decode(NetworkPolicy, encoded).spec == spec


def test_a_rule_that_allows_everything_differs_from_no_rule() -> None:
    everything: dict[str, Any] = {"podSelector": {}, "ingress": [{}]}
    nothing: dict[str, Any] = {"podSelector": {}, "ingress": None}

    assert encode(decode(NetworkPolicySpec, everything)) == everything
    assert encode(decode(NetworkPolicySpec, nothing)) == nothing
    assert decode(NetworkPolicySpec, everything).ingress == (NetworkPolicyIngressRule(),)
