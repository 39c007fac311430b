"""What network policies allow, pod by pod: selectors are resolved to addresses, names of ports to numbers."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from attrs import frozen

from gpuruntime.kube.builtin.core import Namespace
from gpuruntime.kube.builtin.networking import NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.meta.label_selectors import LabelSelector, Selector

__all__ = ["Block", "PodRules", "PortRange", "Rule", "pod_rules"]

_INGRESS: Final = "Ingress"
_EGRESS: Final = "Egress"
_LAST_PORT: Final = 65535
_ENDED: Final = frozenset({"Succeeded", "Failed"})


@frozen(order=True)
class Block:
    """Addresses: those of a CIDR without those of others."""

    cidr: str
    excepted: tuple[str, ...] = ()


@frozen(order=True)
class PortRange:
    """Ports of a protocol, from the first to the last."""

    protocol: str
    first: int = 0
    last: int = _LAST_PORT


@frozen
class Rule:
    """Allowed traffic: with any of these peers, at any of these ports of the destination. None means all."""

    peers: tuple[Block, ...] | None = None
    ports: tuple[PortRange, ...] | None = None


@frozen
class PodRules:
    """What a pod may receive and send. No policy limits a direction that is None; an empty one is closed."""

    pod: str
    addresses: tuple[str, ...]
    ingress: tuple[Rule, ...] | None
    egress: tuple[Rule, ...] | None


def pod_rules(
    node: str, policies: Iterable[NetworkPolicy], pods: Iterable[Pod], namespaces: Iterable[Namespace]
) -> tuple[PodRules, ...]:
    """The rules of all pods of a node that a policy selects, sorted by pod.

    A pod counts while it has an address: in the status, not in the host's network, and not of a pod that has ended.
    """
    world = _World(
        tuple(sorted(filter(_has_address, pods), key=_name)),
        {one.metadata.name: one.metadata.labels for one in namespaces},
    )
    ordered = sorted(policies, key=lambda one: (one.metadata.namespace, one.metadata.name))
    found = (_rules_of(pod, ordered, world) for pod in world.pods if pod.spec.node_name == node)
    return tuple(rules for rules in found if rules.ingress is not None or rules.egress is not None)


@frozen
class _World:
    pods: tuple[Pod, ...]
    namespaces: Mapping[str, Mapping[str, str]]


def _rules_of(pod: Pod, policies: Iterable[NetworkPolicy], world: _World) -> PodRules:
    selecting = [
        policy
        for policy in policies
        if policy.metadata.namespace == pod.metadata.namespace and _matches(policy.spec.pod_selector, pod)
    ]
    receiving = [policy for policy in selecting if _INGRESS in _types(policy)]
    sending = [policy for policy in selecting if _EGRESS in _types(policy)]
    ingress = (rule for policy in receiving for rule in _ingress(policy, pod, world))
    egress = (rule for policy in sending for rule in _egress(policy, world))
    return PodRules(
        _name(pod), _addresses(pod), _usable(ingress) if receiving else None, _usable(egress) if sending else None
    )


def _types(policy: NetworkPolicy) -> tuple[str, ...]:
    """The directions that a policy limits, with the API server's defaults."""
    return policy.spec.policy_types or ((_INGRESS, _EGRESS) if policy.spec.egress else (_INGRESS,))


def _ingress(policy: NetworkPolicy, pod: Pod, world: _World) -> Iterator[Rule]:
    for rule in policy.spec.ingress:
        ports = [found for port in rule.ports for found in _numbered(port, pod)] if rule.ports else None
        yield _rule(_blocks(rule.from_, policy, world), ports)


def _egress(policy: NetworkPolicy, world: _World) -> Iterator[Rule]:
    for rule in policy.spec.egress:
        numbered = [_range(port) for port in rule.ports if not isinstance(port.port, str)]
        if numbered or not rule.ports:
            yield _rule(_blocks(rule.to, policy, world), numbered if rule.ports else None)
        # Only the destination knows which of its ports has a name.
        named = [port for port in rule.ports if isinstance(port.port, str)]
        for peer in _selected(rule.to, policy, world) if named else ():
            yield _rule(_exactly(peer), [found for port in named for found in _numbered(port, peer)])


def _rule(peers: Iterable[Block] | None, ports: Iterable[PortRange] | None) -> Rule:
    return Rule(
        None if peers is None else tuple(sorted(set(peers))), None if ports is None else tuple(sorted(set(ports)))
    )


def _usable(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Each rule once, without those that allow nothing."""
    return tuple(dict.fromkeys(rule for rule in rules if rule.peers != () and rule.ports != ()))


def _blocks(peers: tuple[NetworkPolicyPeer, ...], policy: NetworkPolicy, world: _World) -> list[Block] | None:
    if not peers:
        return None
    outside = [Block(peer.ip_block.cidr, tuple(sorted(peer.ip_block.except_))) for peer in peers if peer.ip_block]
    return [*outside, *(block for pod in _selected(peers, policy, world) for block in _exactly(pod))]


def _selected(peers: tuple[NetworkPolicyPeer, ...], policy: NetworkPolicy, world: _World) -> list[Pod]:
    """The pods that peers select; without peers all pods."""
    return [pod for pod in world.pods if not peers or any(_is_peer(pod, peer, policy, world) for peer in peers)]


def _is_peer(pod: Pod, peer: NetworkPolicyPeer, policy: NetworkPolicy, world: _World) -> bool:
    if peer.ip_block is not None:
        return False
    if peer.namespace_selector is None:
        is_near = pod.metadata.namespace == policy.metadata.namespace
    else:
        labels = world.namespaces.get(pod.metadata.namespace)
        is_near = labels is not None and Selector.of(peer.namespace_selector).matches(labels)
    return is_near and (peer.pod_selector is None or _matches(peer.pod_selector, pod))


def _matches(selector: LabelSelector, pod: Pod) -> bool:
    return Selector.of(selector).matches(pod.metadata.labels)


def _numbered(port: NetworkPolicyPort, pod: Pod) -> list[PortRange]:
    """The numbers of a port at a destination: none if no container of the pod has a port of that name."""
    if not isinstance(port.port, str):
        return [_range(port)]
    protocol = port.protocol or "TCP"
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    return [
        PortRange(protocol, found.container_port, found.container_port)
        for container in containers
        for found in container.ports
        if found.name == port.port and (found.protocol or "TCP") == protocol
    ]


def _range(port: NetworkPolicyPort) -> PortRange:
    protocol = port.protocol or "TCP"
    if port.port is None:
        return PortRange(protocol)
    return PortRange(protocol, int(port.port), port.end_port or int(port.port))


def _has_address(pod: Pod) -> bool:
    return bool(_addresses(pod)) and not pod.spec.host_network and pod.status.phase not in _ENDED


def _addresses(pod: Pod) -> tuple[str, ...]:
    listed = [one.ip for one in pod.status.pod_ips if one.ip]
    return tuple(sorted(set(listed))) or ((pod.status.pod_ip,) if pod.status.pod_ip else ())


def _exactly(pod: Pod) -> list[Block]:
    return [Block(f"{address}/{128 if ':' in address else 32}") for address in _addresses(pod)]


def _name(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
