"""The flags of `gpuruntime manager`, read into one value."""

import argparse
from pathlib import Path
from typing import Any

from attrs import field, frozen

from gpuruntime.api.roles import INSTANCE_NAMESPACE, STOCK_NAMESPACE, SYSTEM_NAMESPACE
from gpuruntime.control import HttpLimits
from gpuruntime.processes.api import AccessSettings
from gpuruntime.processes.cluster_access import KubeMode
from gpuruntime.processes.configuration.notations import ADDRESS, NAMESPACE, choice, count, duration
from gpuruntime.processes.places import Places
from gpuruntime.web.auth.scopes import GrantError, parse_grants

__all__ = ["ManagerSettings", "SettingsError", "add_manager", "settings_of"]


class SettingsError(Exception):
    """Flags that make no sense together; the message says which."""


@frozen
class ManagerSettings:
    """What `gpuruntime manager` was told."""

    access: AccessSettings
    kube_mode: KubeMode = KubeMode.AUTO
    kubeconfig: Path | None = None
    report_seconds: float = 30.0
    places: Places = field(factory=Places)
    keep_operations: float = 86400.0


def add_manager(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.description = (
        "Run everything in one process until SIGTERM or Ctrl-C: the reconcilers where it leads, the API always."
        " /swagger/index.html describes the API, /livez and /readyz are for probes, /metrics for Prometheus."
    )
    parser.add_argument(
        "--http-addr",
        type=ADDRESS.parse,
        default=ADDRESS.parse("127.0.0.1:8080"),
        metavar="HOST:PORT",
        help="where the API listens; :8080 is port 8080 of every interface (default: 127.0.0.1:8080)",
    )
    parser.add_argument(
        "--report-interval",
        type=duration(least=5.0).parse,
        default=30.0,
        metavar="DURATION",
        help="how often the state of the runtime is logged, 5s at least (default: 30s)",
    )
    parser.add_argument(
        "--keep-operations",
        type=duration(least=60.0).parse,
        default=86400.0,
        metavar="DURATION",
        help="how long a request that has ended is known for a replay if it is sent again, 60s at least (default: 24h)",
    )
    _add_cluster(parser)
    _add_access(parser)
    _add_connections(parser)


def _add_cluster(parser: argparse.ArgumentParser) -> None:
    cluster = parser.add_argument_group("cluster")
    cluster.add_argument(
        "--kube-mode",
        type=choice(KubeMode).parse,
        default=KubeMode.AUTO,
        metavar="MODE",
        help="without a cluster, `auto` starts and answers 503 until it is there, `required` exits with 1; `off` uses"
        " none, and keeps stocks and VMs in memory (default: auto)",
    )
    cluster.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="the cluster and who we are in it (default: KUBECONFIG, else ~/.kube/config, else the pod's own account)",
    )
    for flag, usual, what in (
        ("--instance-namespace", INSTANCE_NAMESPACE, "where active units are"),
        ("--stock-namespace", STOCK_NAMESPACE, "where stock units and pools are"),
    ):
        text = f"{what}; can be repeated (default: {usual})"
        cluster.add_argument(flag, type=NAMESPACE.parse, action="append", metavar="NAME", help=text)
    cluster.add_argument(
        "--system-namespace",
        type=NAMESPACE.parse,
        default=SYSTEM_NAMESPACE,
        metavar="NAME",
        help=f"where Operations and the lease are (default: {SYSTEM_NAMESPACE})",
    )


def _add_access(parser: argparse.ArgumentParser) -> None:
    access = parser.add_argument_group(
        "access", "Without any of these, requests from this machine need no credentials and all others are refused."
    )
    access.add_argument("--token-file", type=Path, metavar="FILE", help="bearer tokens; `gpuruntime token` writes it")
    access.add_argument(
        "--token-review", action="store_true", help="take tokens of the cluster made for audience gpuruntime"
    )
    access.add_argument(
        "--grant",
        action="append",
        default=[],
        metavar="SUBJECT=SCOPE",
        help="with --token-review: what a user or group may do, such as user:alice=read or group:ops=operator; can be"
        " repeated",
    )
    access.add_argument(
        "--allow-unauthenticated",
        action="store_true",
        help="listen on an address that others can reach though everybody may do everything",
    )
    access.add_argument("--tls-cert", type=Path, metavar="FILE", help="serve HTTPS with this certificate chain (PEM)")
    access.add_argument("--tls-key", type=Path, metavar="FILE", help="the key of the certificate (PEM)")


def _add_connections(parser: argparse.ArgumentParser) -> None:
    connections = parser.add_argument_group(
        "connections",
        "A connection that waits for a request gives way to a new one; where all serve requests, the new one gets 503.",
    )
    for flag, text in (
        ("--max-connections", "at a time, and 3/4 of the files that may be opened (default: 10000)"),
        ("--max-connections-per-address", "from one address, such as a load balancer (default: 3/4 of all)"),
    ):
        help_text = f"at most this many {text}"
        connections.add_argument(flag, type=count(1, 1_000_000).parse, metavar="N", help=help_text)


def settings_of(arguments: argparse.Namespace) -> ManagerSettings:
    """The settings that parsed flags stand for.

    Raises:
        SettingsError: they make no sense together.
    """
    places = Places(
        tuple(arguments.instance_namespace or (INSTANCE_NAMESPACE,)),
        tuple(arguments.stock_namespace or (STOCK_NAMESPACE,)),
        arguments.system_namespace,
    )
    for namespace in places.confused:
        raise SettingsError(f"namespace {namespace} is for active units and for stock: expected one of the two")
    if (arguments.tls_cert is None) != (arguments.tls_key is None):
        raise SettingsError("--tls-cert and --tls-key: expected both or neither, got one")
    if arguments.grant and not arguments.token_review:
        raise SettingsError("--grant: expected --token-review with it, which tells who callers are")
    if arguments.kube_mode is KubeMode.OFF and (arguments.token_review or arguments.kubeconfig is not None):
        raise SettingsError("--kube-mode off uses no cluster: expected neither --kubeconfig nor --token-review")
    try:
        grants = parse_grants(*arguments.grant)
    except GrantError as error:
        raise SettingsError(f"--grant: {error}") from error
    named: dict[str, Any] = {
        name: getattr(arguments, name) for name in ("token_file", "token_review", "allow_unauthenticated")
    }
    tls = None if arguments.tls_cert is None else (arguments.tls_cert, arguments.tls_key)
    limits = HttpLimits(arguments.max_connections, arguments.max_connections_per_address)
    return ManagerSettings(
        AccessSettings(arguments.http_addr, grants=grants, tls=tls, limits=limits, **named),
        arguments.kube_mode,
        arguments.kubeconfig,
        arguments.report_interval,
        places,
        arguments.keep_operations,
    )
