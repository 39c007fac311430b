"""The sections of processes that serve the API, and the base class of their configs."""

from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Final

from attrs import frozen

from gpuruntime.control import HttpAddress, HttpLimits
from gpuruntime.endpoints.auth.scopes import GrantError, parse_grants
from gpuruntime.processes.config.keys import Fault, key, keys, section
from gpuruntime.processes.config.notations import ADDRESS, BOOLEAN, FILE, Notation, choice, count, duration
from gpuruntime.processes.config.sections import ProcessConfig

__all__ = ["ApiConfig", "Auth", "Connections", "KubeMode", "Tls"]


class KubeMode(Enum):
    """What a process does without a cluster."""

    AUTO = "auto"
    """It starts, and serves nothing but /health until the cluster answers."""
    OFF = "off"
    """It uses none: health, stocks and VMs are kept in memory."""
    REQUIRED = "required"
    """It does not start."""


def _grant(text: str) -> str:
    parse_grants(text)
    return text


_GRANT: Final = Notation(
    "user:NAME=SCOPE or group:NAME=SCOPE, the scope one of read, write, operator, access, or two such as write+access",
    _grant,
    str,
    metavar="SUBJECT=SCOPE",
)


@frozen
class Tls:
    """The serving certificate; both files or neither. The files are reloaded when they change."""

    cert_file: Path | None = key(FILE, None, "serve HTTPS with this certificate chain (PEM)", flag="--tls-cert")
    key_file: Path | None = key(FILE, None, "private key of the certificate (PEM)", flag="--tls-key")

    @property
    def files(self) -> tuple[Path, Path] | None:
        return None if self.cert_file is None or self.key_file is None else (self.cert_file, self.key_file)

    def faults(self) -> Iterator[Fault]:
        if (self.cert_file is None) != (self.key_file is None):
            given, missing = ("keyFile", "certFile") if self.cert_file is None else ("certFile", "keyFile")
            yield Fault(given, f"expected tls.{missing} with it: HTTPS needs a certificate and its key")


@frozen
class Auth:
    """Authentication and authorisation of callers.

    Without a token file and token reviews, callers on the same machine need no credentials, and a process that listens
    on an address that other machines reach does not start.
    """

    token_file: Path | None = key(
        FILE, None, "file of bearer tokens, written by `gpuruntime token`; reloaded on change", flag="--token-file"
    )
    token_review: bool = key(
        BOOLEAN, False, "accept tokens of the cluster with the audience gpuruntime (TokenReview)", flag="--token-review"
    )
    grants: tuple[str, ...] = keys(
        _GRANT,
        (),
        "with token reviews: the scope of a user or group, such as user:alice=read or group:ops=operator",
        flag="--grant",
    )
    allow_unauthenticated: bool = key(
        BOOLEAN,
        False,
        "listen on an address that other machines reach, with no credentials and every scope for all callers",
        flag="--allow-unauthenticated",
    )

    def faults(self) -> Iterator[Fault]:
        if self.grants and not self.token_review:
            yield Fault("grants", "expected auth.tokenReview: true with it, which authenticates callers")
        try:
            parse_grants(*self.grants)
        except GrantError as error:
            yield Fault("grants", str(error))


@frozen
class Connections:
    """Limits of the connections to the API.

    A new connection replaces one that waits for a request; where all of them serve requests, the new one gets 503.
    """

    total: int | None = key(
        count(1, 1_000_000),
        None,
        "maximum number of connections, at most 3/4 of the open files limit; without it 10000",
        flag="--max-connections",
    )
    per_address: int | None = key(
        count(1, 1_000_000),
        None,
        "maximum number from one address, such as a load balancer; without it 3/4 of all",
        flag="--max-connections-per-address",
    )
    header_timeout: float = key(
        duration(least=1.0), 10.0, "time that the headers of a request may take", flag="--header-timeout"
    )
    idle_timeout: float = key(
        duration(least=1.0),
        75.0,
        "time that a connection waits for its next request; set it higher than that of the load balancer",
        flag="--idle-timeout",
    )

    @property
    def limits(self) -> HttpLimits:
        return HttpLimits(
            self.total, self.per_address, head_seconds=self.header_timeout, idle_seconds=self.idle_timeout
        )

    def faults(self) -> Iterator[Fault]:
        if self.total is not None and self.per_address is not None and self.per_address > self.total:
            yield Fault("perAddress", f"expected at most connections.total ({self.total}), got {self.per_address}")


@frozen(kw_only=True)
class ApiConfig(ProcessConfig):
    """The keys of every process that serves the API."""

    kube_mode: KubeMode = key(
        choice(KubeMode),
        KubeMode.AUTO,
        "without a cluster, auto answers 503 until it is there, required exits with 1; off uses none, and keeps stocks"
        " and VMs in memory",
    )
    http_addr: HttpAddress = key(
        ADDRESS, HttpAddress("127.0.0.1", 8080), "address of the API; :8080 is port 8080 of all interfaces"
    )
    tls: Tls = section(Tls)
    auth: Auth = section(
        Auth, "Without tokens, callers on this machine need no credentials, and all other callers are refused."
    )
    connections: Connections = section(
        Connections,
        "A new connection replaces one that waits for a request; where all serve requests, the new one gets 503.",
    )
    keep_operations: float = key(
        duration(least=60.0), 86400.0, "retention of completed Operations: how long a repeated request is replayed"
    )
    report_interval: float = key(duration(least=5.0), 30.0, "time between two log lines with the state of the runtime")

    def faults(self) -> Iterator[Fault]:
        if self.kube_mode is KubeMode.OFF and self.kubeconfig is not None:
            yield Fault("kubeconfig", "expected none with kubeMode: off, which uses no cluster")
        if self.kube_mode is KubeMode.OFF and self.auth.token_review:
            yield Fault("auth.tokenReview", "expected false with kubeMode: off, which uses no cluster")
