"""The flags of `gpuruntime manager`, read into one value."""

import argparse
import re
from enum import Enum
from pathlib import Path
from typing import Any, Final

from attrs import field, frozen

from gpuruntime.api.roles import INSTANCE_NAMESPACE, STOCK_NAMESPACE, SYSTEM_NAMESPACE
from gpuruntime.control.operations.http_site import HttpAddress
from gpuruntime.meta.names import is_dns_label
from gpuruntime.processes.product import Places
from gpuruntime.web.identity import GrantError, Grants, parse_grants

__all__ = ["KubeMode", "ManagerSettings", "SettingsError", "add_manager", "duration", "http_address", "settings_of"]

_SHORTEST_INTERVAL: Final = 5.0
_DURATION: Final = re.compile(r"(?P<number>[0-9]{1,9}(?:\.[0-9]{1,3})?)(?P<unit>ms|s|m|h)?")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}


class SettingsError(Exception):
    """Flags that make no sense together; the message says which."""


class KubeMode(Enum):
    """What a process does without a cluster."""

    AUTO = "auto"
    """It starts, and serves nothing but /health until the cluster is there."""
    OFF = "off"
    """It needs none: health, stocks and VMs are kept in memory."""
    REQUIRED = "required"
    """It does not start."""


@frozen
class ManagerSettings:
    """What `gpuruntime manager` was told."""

    address: HttpAddress
    kube_mode: KubeMode = KubeMode.AUTO
    kubeconfig: Path | None = None
    report_seconds: float = 30.0
    places: Places = field(factory=Places)
    token_file: Path | None = None
    token_review: bool = False
    grants: Grants = field(factory=Grants)
    allow_unauthenticated: bool = False
    tls: tuple[Path, Path] | None = None


def http_address(text: str) -> HttpAddress:
    """Read `host:port`, `:port` (every interface) or `[v6]:port`."""
    host, separator, port = text.rpartition(":")
    if not separator or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"expected host:port with a port of 0 to 65535, got {text!r}")
    return HttpAddress(host.removeprefix("[").removesuffix("]") or "0.0.0.0", int(port))


def duration(text: str) -> float:
    """Read seconds from `30`, `30s`, `1.5m`, `1h` or `500ms`."""
    parts = _DURATION.fullmatch(text)
    if parts is None:
        raise argparse.ArgumentTypeError(f"expected a duration such as 30s or 5m, got {text!r}")
    return float(parts["number"]) * _SECONDS[parts["unit"]]


def _kube_mode(text: str) -> KubeMode:
    try:
        return KubeMode(text)
    except ValueError:
        modes = ", ".join(mode.value for mode in KubeMode)
        raise argparse.ArgumentTypeError(f"expected one of {modes}, got {text!r}") from None


def _report_interval(text: str) -> float:
    seconds = duration(text)
    if seconds < _SHORTEST_INTERVAL:
        raise argparse.ArgumentTypeError(f"expected at least {_SHORTEST_INTERVAL:g}s, got {text!r}")
    return seconds


def _namespace(text: str) -> str:
    if not is_dns_label(text):
        raise argparse.ArgumentTypeError(f"expected the name of a namespace, got {text!r}")
    return text


def add_manager(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its flags."""
    parser = commands.add_parser(
        "manager",
        help="run everything in one process",
        description="Run everything in one process until SIGTERM or Ctrl-C: the reconcilers where it leads, the API"
        " always. /swagger/index.html describes the API, /livez and /readyz are for probes, /metrics for Prometheus.",
    )
    parser.add_argument(
        "--http-addr",
        type=http_address,
        default=http_address("127.0.0.1:8080"),
        metavar="HOST:PORT",
        help="where the API listens; :8080 is port 8080 of every interface (default: 127.0.0.1:8080)",
    )
    parser.add_argument(
        "--report-interval",
        type=_report_interval,
        default=30.0,
        metavar="DURATION",
        help="how often the state of the runtime is logged, 5s at least (default: 30s)",
    )
    _add_cluster(parser)
    _add_access(parser)


def _add_cluster(parser: argparse.ArgumentParser) -> None:
    cluster = parser.add_argument_group("cluster")
    cluster.add_argument(
        "--kube-mode",
        type=_kube_mode,
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
        cluster.add_argument(flag, type=_namespace, action="append", metavar="NAME", help=text)
    cluster.add_argument(
        "--system-namespace",
        type=_namespace,
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
    shared = sorted({*places.instance} & {*places.stock})
    if shared:
        raise SettingsError(f"namespace {shared[0]} is for active units and for stock: expected one of the two")
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
        name: getattr(arguments, name)
        for name in ("kube_mode", "kubeconfig", "token_file", "token_review", "allow_unauthenticated")
    }
    return ManagerSettings(
        arguments.http_addr,
        report_seconds=arguments.report_interval,
        places=places,
        grants=grants,
        tls=None if arguments.tls_cert is None else (arguments.tls_cert, arguments.tls_key),
        **named,
    )
