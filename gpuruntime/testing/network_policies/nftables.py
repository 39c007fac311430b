"""The nftables table of a node: one chain per pod and direction, and a hook for all traffic that the node routes.

Traffic between pods is always routed. The node's own traffic, such as probes, passes no such hook, and no policy.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from gpuruntime.testing.network_policies.rules import Block, PodRules, PortRange, Rule

__all__ = ["TABLE", "render"]

TABLE: Final = "gpuruntime-network-policies"
_EXACT: Final = ("/32", "/128")


def render(pods: Iterable[PodRules]) -> str:
    """A script for `nft -f` that replaces the whole table, in one transaction."""
    chains = sorted(pods, key=lambda rules: rules.pod)
    lines = [
        # So that the deletion finds one.
        f"table inet {TABLE}",
        f"delete table inet {TABLE}",
        f"table inet {TABLE} {{",
        *(f"\t{line}" for line in _forward(chains)),
        *(f"\t{line}" for pod in chains for line in _chains(pod)),
        "}",
    ]
    return "\n".join(lines) + "\n"


def _forward(pods: Sequence[PodRules]) -> Iterator[str]:
    yield "chain forward {"
    yield "\ttype filter hook forward priority filter; policy accept;"
    # Answers pass, and so do connections that are older than the policy.
    yield "\tct state established,related accept"
    for direction, field in (("egress", "saddr"), ("ingress", "daddr")):
        limited = [pod for pod in pods if _direction(pod, direction) is not None]
        for family in ("ip", "ip6"):
            targets = [
                f"{address} : jump {_chain(pod, direction)}"
                for pod in limited
                for address in pod.addresses
                if _family(address) == family
            ]
            if targets:
                yield f"\t{family} {field} vmap {{ {', '.join(targets)} }}"
    yield "}"


def _chains(pod: PodRules) -> Iterator[str]:
    for direction in ("egress", "ingress"):
        rules = _direction(pod, direction)
        if rules is None:
            continue
        yield f"chain {_chain(pod, direction)} {{"
        yield f'\tcomment "{pod.pod}"'
        field = "daddr" if direction == "egress" else "saddr"
        for rule in rules:
            for peers in _peers(rule, field):
                for ports in _ports(rule):
                    yield "\t" + " ".join(filter(None, (peers, ports, "return")))
        yield "\tdrop"
        yield "}"


def _direction(pod: PodRules, direction: str) -> tuple[Rule, ...] | None:
    return pod.egress if direction == "egress" else pod.ingress


def _chain(pod: PodRules, direction: str) -> str:
    # Dual-stack pods have one chain for both addresses; ':' is not allowed in a name.
    return f"{direction}-{pod.addresses[0].replace(':', '.')}"


def _peers(rule: Rule, field: str) -> Iterator[str]:
    """One condition for all single addresses of a family, and one for each other block: a set may not overlap."""
    if rule.peers is None:
        yield ""
        return
    exact = [block for block in rule.peers if _is_exact(block)]
    for family in ("ip", "ip6"):
        addresses = [block.cidr.partition("/")[0] for block in exact if _family(block.cidr) == family]
        if addresses:
            yield f"{family} {field} {{ {', '.join(addresses)} }}"
    for block in rule.peers:
        if block not in exact:
            family = _family(block.cidr)
            excepted = (f"{family} {field} != {cidr}" for cidr in block.excepted)
            yield " ".join((f"{family} {field} {block.cidr}", *excepted))


def _ports(rule: Rule) -> Iterator[str]:
    if rule.ports is None:
        yield ""
        return
    for protocol in sorted({ports.protocol for ports in rule.ports}):
        merged = _merged([ports for ports in rule.ports if ports.protocol == protocol])
        ranges = (str(first) if first == last else f"{first}-{last}" for first, last in merged)
        yield f"{protocol.lower()} dport {{ {', '.join(ranges)} }}"


def _merged(ranges: Iterable[PortRange]) -> list[tuple[int, int]]:
    """The same ports in ranges that neither overlap nor touch, which a set needs."""
    merged: list[tuple[int, int]] = []
    for ports in sorted(ranges):
        if merged and ports.first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], ports.last))
        else:
            merged.append((ports.first, ports.last))
    return merged


def _is_exact(block: Block) -> bool:
    return block.cidr.endswith(_EXACT) and not block.excepted


def _family(address: str) -> str:
    return "ip6" if ":" in address else "ip"
