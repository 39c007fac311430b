"""What the workers of a function reach, and what reaches them."""

from ipaddress import ip_address, ip_network

import pytest
from attrs import evolve

from gpuruntime.api.unit_template import UnitPort, UnitTemplate
from gpuruntime.desired.functions.network_policy import function_of_policy, policy_name, worker_policy
from gpuruntime.kube.builtin.networking import NetworkPolicy, NetworkPolicyEgressRule
from gpuruntime.meta import encode
from tests.desired.function_scenes import function, joined

URL = "wss://gpuruntime-activator.gpuruntime-system.svc:8443"


def policy(url: str = URL) -> NetworkPolicy:
    return worker_policy(function(), (), url, "gpuruntime-system")


def is_in(address: str, rule: NetworkPolicyEgressRule) -> bool:
    blocks = [peer.ip_block for peer in rule.to if peer.ip_block is not None]
    return any(
        ip_address(address) in ip_network(block.cidr)
        and not any(ip_address(address) in ip_network(each) for each in block.except_)
        for block in blocks
    )


def test_nothing_reaches_a_worker_without_ports() -> None:
    found = policy()

    assert (found.spec.policy_types, found.spec.ingress) == (("Ingress", "Egress"), ())
    assert encode(found.spec.pod_selector) == {"matchLabels": {"runtime.lokiwager.io/function": "hello"}}


def test_gateways_reach_the_ports_that_workers_declare() -> None:
    owner = function(template=UnitTemplate(ports=(UnitPort("http", 80), UnitPort("game", 9, "UDP"))))
    mine = joined(1)
    mine = evolve(mine, spec=evolve(mine.spec, template=UnitTemplate(ports=(UnitPort("web", 80), UnitPort("x", 81)))))

    (rule,) = worker_policy(owner, (mine,), URL, "gpuruntime-system").spec.ingress

    assert [(port.protocol, port.port) for port in rule.ports] == [("TCP", 80), ("TCP", 81), ("UDP", 9)]
    assert encode(rule.from_[0]) == {
        "namespaceSelector": {"matchLabels": {"runtime.lokiwager.io/unit-clients": "allowed"}}
    }


@pytest.mark.parametrize(
    "address",
    ["10.1.2.3", "172.20.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "168.63.129.16", "fd00::1", "fe80::1"],
)
def test_private_addresses_and_metadata_services_are_out_of_reach(address: str) -> None:
    dns, activator, internet = policy().spec.egress

    assert not any(is_in(address, rule) for rule in (dns, activator, internet))


@pytest.mark.parametrize("address", ["8.8.8.8", "2001:4860:4860::8888"])
def test_the_internet_is_in_reach(address: str) -> None:
    assert is_in(address, policy().spec.egress[2])


def test_an_activator_in_the_cluster_is_found_by_its_label() -> None:
    (peer,) = policy().spec.egress[1].to

    assert encode(peer) == {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "gpuruntime-system"}},
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": "gpuruntime-activator"}},
    }


@pytest.mark.parametrize(
    ("url", "block", "port"),
    [
        ("ws://10.9.8.7:8094", "10.9.8.7/32", 8094),
        ("wss://[fd00::7]", "fd00::7/128", 443),
        ("ws://10.9.8.7", "10.9.8.7/32", 80),
    ],
)
def test_an_activator_with_an_address_is_reached_there(url: str, block: str, port: int) -> None:
    rule = policy(url).spec.egress[1]

    assert encode(rule) == {"to": [{"ipBlock": {"cidr": block}}], "ports": [{"protocol": "TCP", "port": port}]}


def test_a_policy_is_found_by_its_name() -> None:
    assert (function_of_policy(policy_name("hello")), function_of_policy("others")) == ("hello", "")
