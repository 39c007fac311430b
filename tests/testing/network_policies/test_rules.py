"""What policies mean, case by case, and in general against an evaluator that reads the objects themselves."""

import ipaddress
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuruntime.kube.builtin.core import Namespace
from gpuruntime.kube.builtin.networking import NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.meta.label_selectors import LabelSelector, Selector
from gpuruntime.testing.network_policies.rules import Block, PodRules, PortRange, Rule, pod_rules
from tests.testing.network_policies.policy_objects import NODE, namespace, pod, policy

ALL: Final = Rule()
SPACES = [namespace("red", team="red"), namespace("blue", team="blue")]
WEB = pod("red/web", "198.18.1.2", labels={"app": "web"}, ports={"http": ("TCP", 8080), "dns": ("UDP", 53)})
SQL = pod("red/sql", "198.18.1.3", labels={"app": "sql"}, ports={"http": ("TCP", 80)})
TOP = pod("blue/top", "198.18.1.4", labels={"app": "web"})


def rules(*policies: NetworkPolicy, pods: tuple[Pod, ...] = (WEB, SQL, TOP)) -> dict[str, PodRules]:
    return {found.pod: found for found in pod_rules(NODE, policies, pods, SPACES)}


def test_a_pod_that_no_policy_selects_has_no_rules() -> None:
    assert rules() == {}
    assert rules(policy("blue/p", podSelector={"matchLabels": {"app": "other"}}, policyTypes=["Ingress"])) == {}


def test_a_policy_without_rules_closes_its_directions() -> None:
    found = rules(policy("red/p", policyTypes=["Ingress"]), policy("blue/p", policyTypes=["Ingress", "Egress"]))

    assert found["red/web"] == PodRules("red/web", ("198.18.1.2",), (), None)
    assert found["blue/top"] == PodRules("blue/top", ("198.18.1.4",), (), ())


def test_an_empty_rule_opens_a_direction() -> None:
    found = rules(policy("red/p", policyTypes=["Ingress", "Egress"], ingress=[{}], egress=[{}]))

    assert (found["red/web"].ingress, found["red/web"].egress) == ((ALL,), (ALL,))


def test_the_types_of_a_policy_without_types_follow_from_its_rules() -> None:
    assert rules(policy("red/p", ingress=[{}]))["red/web"].egress is None
    assert rules(policy("red/p", egress=[{}]))["red/web"].ingress == ()


def test_peers_are_pods_of_the_same_namespace_of_others_or_both() -> None:
    web, blue = {"matchLabels": {"app": "web"}}, {"matchLabels": {"team": "blue"}}
    of_web, of_sql, of_top = (Block(f"198.18.1.{number}/32") for number in (2, 3, 4))

    def allowed(*peers: Any) -> tuple[Block, ...] | None:
        found = rules(policy("red/p", policyTypes=["Ingress"], ingress=[{"from": list(peers)}]))["red/sql"].ingress
        assert found is not None
        return found[0].peers if found else ()

    assert allowed({"podSelector": {}}) == (of_web, of_sql)
    assert allowed({"podSelector": web}) == (of_web,)
    assert allowed({"namespaceSelector": {}}) == (of_web, of_sql, of_top)
    assert allowed({"namespaceSelector": blue}) == (of_top,)
    assert allowed({"namespaceSelector": blue, "podSelector": {"matchLabels": {"app": "sql"}}}) == ()
    assert allowed({"podSelector": web}, {"namespaceSelector": blue}) == (of_web, of_top)
    assert allowed({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}) == (
        Block("10.0.0.0/8", ("10.1.0.0/16",)),
    )


def test_a_named_port_has_the_number_of_the_destination() -> None:
    http, dns = {"port": "http"}, {"port": "dns", "protocol": "UDP"}

    inwards = rules(policy("red/p", policyTypes=["Ingress"], ingress=[{"ports": [http, dns]}]))
    outwards = rules(policy("blue/p", policyTypes=["Egress"], egress=[{"ports": [http, {"port": 53}]}]))

    assert inwards["red/web"].ingress == (Rule(None, (PortRange("TCP", 8080, 8080), PortRange("UDP", 53, 53))),)
    assert inwards["red/sql"].ingress == (Rule(None, (PortRange("TCP", 80, 80),)),)
    assert outwards["blue/top"].egress == (
        Rule(None, (PortRange("TCP", 53, 53),)),
        Rule((Block("198.18.1.3/32"),), (PortRange("TCP", 80, 80),)),
        Rule((Block("198.18.1.2/32"),), (PortRange("TCP", 8080, 8080),)),
    )


def test_a_protocol_without_a_port_and_a_range_are_ranges() -> None:
    ports = [{"protocol": "UDP"}, {"port": 8000, "endPort": 8010}]

    found = rules(policy("red/p", policyTypes=["Ingress"], ingress=[{"ports": ports}]))

    assert found["red/web"].ingress == (Rule(None, (PortRange("TCP", 8000, 8010), PortRange("UDP", 0, 65535))),)


def test_only_pods_with_an_address_of_their_own_count() -> None:
    closed = policy("red/p", policyTypes=["Ingress"], ingress=[{"from": [{"podSelector": {}}]}])
    others = (
        pod("red/starting"),
        pod("red/host", "198.19.1.2", host_network=True),
        pod("red/done", "198.18.1.2", phase="Succeeded"),
        pod("red/failed", "198.18.1.2", phase="Failed"),
    )
    elsewhere = pod("red/elsewhere", "10.0.0.1", node="fake-1")

    found = rules(closed, pods=(WEB, *others, elsewhere))

    assert list(found) == ["red/web"]
    assert found["red/web"].ingress == (Rule((Block("10.0.0.1/32"), Block("198.18.1.2/32"))),)


def test_a_pod_with_two_addresses_is_a_peer_with_both() -> None:
    both = pod("red/both", "198.18.1.9,fd00::9")

    found = rules(policy("red/p", ingress=[{"from": [{"podSelector": {}}]}]), pods=(both,))

    assert found["red/both"].addresses == ("198.18.1.9", "fd00::9")
    assert found["red/both"].ingress == (Rule((Block("198.18.1.9/32"), Block("fd00::9/128"))),)


# In general: two ways to decide whether a packet passes must agree.

LABELS = st.dictionaries(st.sampled_from("ab"), st.sampled_from("12"), max_size=2)
SELECTORS = st.one_of(
    LABELS.map(lambda labels: {"matchLabels": labels}),
    st.builds(
        lambda key, operator: {"matchExpressions": [{"key": key, "operator": operator}]},
        st.sampled_from("ab"),
        st.sampled_from(["Exists", "DoesNotExist"]),
    ),
)
BLOCKS = st.sampled_from(
    [
        {"cidr": "0.0.0.0/0"},
        {"cidr": "198.18.0.0/16", "except": ["198.18.0.2/32"]},
        {"cidr": "198.18.0.1/32"},
        {"cidr": "::/0"},
    ]
)
PEERS = st.one_of(
    st.builds(lambda pods: {"podSelector": pods}, SELECTORS),
    st.builds(lambda spaces: {"namespaceSelector": spaces}, SELECTORS),
    st.builds(lambda pods, spaces: {"podSelector": pods, "namespaceSelector": spaces}, SELECTORS, SELECTORS),
    st.builds(lambda block: {"ipBlock": block}, BLOCKS),
)
PROTOCOLS = st.sampled_from(["TCP", "UDP"])
PORTS = st.one_of(
    st.builds(lambda protocol: {"protocol": protocol}, PROTOCOLS),
    st.builds(lambda protocol, port: {"protocol": protocol, "port": port}, PROTOCOLS, st.sampled_from([1, 2, "one"])),
    st.just({"port": 1, "endPort": 2}),
)
SPEC = st.fixed_dictionaries(
    {
        "podSelector": SELECTORS,
        "policyTypes": st.sampled_from([["Ingress"], ["Egress"], ["Ingress", "Egress"]]),
        "ingress": st.lists(
            st.fixed_dictionaries(
                {}, optional={"from": st.lists(PEERS, max_size=2), "ports": st.lists(PORTS, max_size=2)}
            ),
            max_size=2,
        ),
        "egress": st.lists(
            st.fixed_dictionaries(
                {}, optional={"to": st.lists(PEERS, max_size=2), "ports": st.lists(PORTS, max_size=2)}
            ),
            max_size=2,
        ),
    }
)
POLICIES = st.lists(st.tuples(st.sampled_from(["x", "y"]), SPEC), max_size=4).map(
    lambda found: [policy(f"{space}/{number}", **spec) for number, (space, spec) in enumerate(found)]
)
PODS = st.lists(st.tuples(st.sampled_from(["x", "y"]), LABELS, st.sampled_from([1, 2, 3])), min_size=2, max_size=4).map(
    lambda found: [
        pod(f"{space}/{number}", f"198.18.0.{number}", labels=labels, ports={"one": ("TCP", port)})
        for number, (space, labels, port) in enumerate(found)
    ]
)


class Oracle:
    """Decides by the API's own words: a pod that policies select for a direction may do what any of them allows."""

    def __init__(self, policies: list[NetworkPolicy], pods: list[Pod], namespaces: list[Namespace]) -> None:
        self.policies = policies
        self.pods = {one.status.pod_ip: one for one in pods}
        self.labels = {one.metadata.name: one.metadata.labels for one in namespaces}

    def passes(self, source: str, destination: str, protocol: str, port: int) -> bool:
        return self._may("Egress", source, destination, destination, protocol, port) and self._may(
            "Ingress", destination, source, destination, protocol, port
        )

    def _may(self, direction: str, own: str, peer: str, destination: str, protocol: str, port: int) -> bool:
        concerned = [
            policy
            for policy in self.policies
            if own in self.pods
            and direction in policy.spec.policy_types
            and policy.metadata.namespace == self.pods[own].metadata.namespace
            and self._fits(policy.spec.pod_selector, self.pods[own].metadata.labels)
        ]
        ingress = [(policy, rule.from_, rule.ports) for policy in concerned for rule in policy.spec.ingress]
        egress = [(policy, rule.to, rule.ports) for policy in concerned for rule in policy.spec.egress]
        return not concerned or any(
            (not peers or any(self._is(peer, one, policy) for one in peers))
            and (not ports or any(self._has(destination, one, protocol, port) for one in ports))
            for policy, peers, ports in (ingress if direction == "Ingress" else egress)
        )

    def _is(self, address: str, peer: NetworkPolicyPeer, policy: NetworkPolicy) -> bool:
        if peer.ip_block is not None:
            inside = [within(address, peer.ip_block.cidr), *(not within(address, one) for one in peer.ip_block.except_)]
            return all(inside)
        found = self.pods.get(address)
        if found is None:
            return False
        space = found.metadata.namespace
        fits = peer.pod_selector is None or self._fits(peer.pod_selector, found.metadata.labels)
        if peer.namespace_selector is None:
            return fits and space == policy.metadata.namespace
        return fits and self._fits(peer.namespace_selector, self.labels[space])

    def _has(self, destination: str, wanted: NetworkPolicyPort, protocol: str, port: int) -> bool:
        if (wanted.protocol or "TCP") != protocol:
            return False
        if isinstance(wanted.port, str):
            found = self.pods.get(destination)
            named = [one for container in found.spec.containers for one in container.ports] if found else []
            return any((one.name, one.protocol, one.container_port) == (wanted.port, protocol, port) for one in named)
        return wanted.port is None or wanted.port <= port <= (wanted.end_port or wanted.port)

    def _fits(self, selector: LabelSelector, labels: Any) -> bool:
        return Selector.of(selector).matches(labels)


def within(address: str, cidr: str) -> bool:
    return ipaddress.ip_address(address) in ipaddress.ip_network(cidr)


def passes(found: dict[str, PodRules], source: str, destination: str, protocol: str, port: int) -> bool:
    """Decides by the rules, as the table does: first the sender's, then the receiver's."""

    def allows(rule: Rule, peer: str) -> bool:
        near = rule.peers is None or any(
            within(peer, block.cidr) and not any(within(peer, one) for one in block.excepted) for block in rule.peers
        )
        return near and (
            rule.ports is None
            or any(ports.protocol == protocol and ports.first <= port <= ports.last for ports in rule.ports)
        )

    sending, receiving = found.get(source), found.get(destination)
    out = sending is None or sending.egress is None or any(allows(rule, destination) for rule in sending.egress)
    return out and (
        receiving is None or receiving.ingress is None or any(allows(rule, source) for rule in receiving.ingress)
    )


@settings(max_examples=300)
@given(POLICIES, PODS, LABELS, LABELS)
def test_the_rules_pass_what_the_policies_allow(
    policies: list[NetworkPolicy], pods: list[Pod], x: dict[str, str], y: dict[str, str]
) -> None:
    spaces = [namespace("x", **x), namespace("y", **y)]
    oracle = Oracle(policies, pods, spaces)

    found = {address: rules for rules in pod_rules(NODE, policies, pods, spaces) for address in rules.addresses}

    addresses = [*oracle.pods, "198.18.7.7"]
    for source in addresses:
        for destination in addresses:
            for protocol, port in (("TCP", 1), ("TCP", 2), ("TCP", 3), ("UDP", 1)):
                packet = (str(source), str(destination), protocol, port)
                assert passes(found, *packet) == oracle.passes(*packet), packet
