"""The NetworkPolicy of a function's workers: what they reach, and what reaches them.

::

    ingress   the ports that a worker declares, from namespaces with the label of gateways; nothing else
    egress    DNS, the activator, and the internet without private and link-local addresses

The kubelet's probes, and its call of /drain, need no rule: a node reaches its pods. Policies add up, so the guard rails
of units leave the pods of functions to this one.
"""

from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from gpuruntime.api.gpufunction import GPUFunction
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import APP_LABEL, FUNCTION_LABEL, GROUP, MANAGED_BY, MANAGED_BY_LABEL
from gpuruntime.api.unit_template import UnitPort
from gpuruntime.kube.builtin.networking import (
    IPBlock,
    NetworkPolicy,
    NetworkPolicyEgressRule,
    NetworkPolicyIngressRule,
    NetworkPolicyPeer,
    NetworkPolicyPort,
    NetworkPolicySpec,
)
from gpuruntime.meta import FrozenDict, LabelSelector, ObjectMeta

__all__ = ["ACTIVATOR_APP", "BLOCKED", "function_of_policy", "policy_name", "worker_policy"]

ACTIVATOR_APP: Final = "gpuruntime-activator"
"""The label app.kubernetes.io/name of the activator's pods, in the namespace of the product's processes."""
BLOCKED: Final = (
    "10.0.0.0/8",
    "100.64.0.0/10",
    "168.63.129.16/32",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.168.0.0/16",
)
"""Addresses that workers do not reach: private ones, those of carriers, link-local ones, and Azure's host."""

_BLOCKED_V6: Final = ("fc00::/7", "fe80::/10")
_NAMESPACE: Final = "kubernetes.io/metadata.name"
_GATEWAYS: Final = f"{GROUP}/unit-clients"
_PREFIX: Final = "function-"
_DEFAULT_PORTS: Final = {"ws": 80, "wss": 443}
_NODE_LOCAL_DNS: Final = "169.254.20.10/32"
_DNS: Final = NetworkPolicyEgressRule(
    to=(
        NetworkPolicyPeer(namespace_selector=LabelSelector(match_labels=FrozenDict({_NAMESPACE: "kube-system"}))),
        NetworkPolicyPeer(ip_block=IPBlock(_NODE_LOCAL_DNS)),
    ),
    ports=(NetworkPolicyPort("UDP", 53), NetworkPolicyPort("TCP", 53)),
)
_INTERNET: Final = NetworkPolicyEgressRule(
    to=(
        NetworkPolicyPeer(ip_block=IPBlock("0.0.0.0/0", BLOCKED)),
        NetworkPolicyPeer(ip_block=IPBlock("::/0", _BLOCKED_V6)),
    )
)
_FROM_GATEWAYS: Final = NetworkPolicyPeer(
    namespace_selector=LabelSelector(match_labels=FrozenDict({_GATEWAYS: "allowed"}))
)


def policy_name(function: str) -> str:
    """The name of the NetworkPolicy of a function's workers."""
    return f"{_PREFIX}{function}"


def function_of_policy(policy: str) -> str:
    """The function whose workers a NetworkPolicy of this name would be for; "" if there can be none."""
    return policy.removeprefix(_PREFIX) if policy.startswith(_PREFIX) else ""


def worker_policy(
    function: GPUFunction, joined: Iterable[GPUUnit], activator_url: str, system_namespace: str
) -> NetworkPolicy:
    """The NetworkPolicy of the workers of a function, those that joined included.

    Guarantees: a worker reaches no other pod than the activator's and those of DNS. An activator that is configured by
    its address is reached at that address and port; one with a public name is in the internet.
    """
    name = function.metadata.name
    ports = _ports((function.spec.template.ports, *(unit.spec.template.ports for unit in joined)))
    return NetworkPolicy(
        ObjectMeta(
            name=policy_name(name),
            namespace=function.metadata.namespace,
            labels=FrozenDict({MANAGED_BY_LABEL: MANAGED_BY, FUNCTION_LABEL: name}),
        ),
        NetworkPolicySpec(
            pod_selector=LabelSelector(match_labels=FrozenDict({FUNCTION_LABEL: name})),
            policy_types=("Ingress", "Egress"),
            ingress=(NetworkPolicyIngressRule((_FROM_GATEWAYS,), ports),) if ports else (),
            egress=(_DNS, _activator(activator_url, system_namespace), _INTERNET),
        ),
    )


def _ports(declared: Iterable[Iterable[UnitPort]]) -> tuple[NetworkPolicyPort, ...]:
    found = sorted({(port.protocol, port.port) for ports in declared for port in ports})
    return tuple(NetworkPolicyPort(protocol, number) for protocol, number in found)


def _activator(url: str, system_namespace: str) -> NetworkPolicyEgressRule:
    parts = urlsplit(url)
    try:
        address = ip_address(parts.hostname or "")
    except ValueError:
        # Policies see the port of the pod, which may differ from that of its Service in the URL. The activator's own
        # policy says at which ports it takes connections.
        return NetworkPolicyEgressRule(
            to=(
                NetworkPolicyPeer(
                    pod_selector=LabelSelector(match_labels=FrozenDict({APP_LABEL: ACTIVATOR_APP})),
                    namespace_selector=LabelSelector(match_labels=FrozenDict({_NAMESPACE: system_namespace})),
                ),
            )
        )
    return NetworkPolicyEgressRule(
        to=(NetworkPolicyPeer(ip_block=IPBlock(f"{address}/{address.max_prefixlen}")),),
        ports=(NetworkPolicyPort("TCP", parts.port or _DEFAULT_PORTS.get(parts.scheme, 443)),),
    )
