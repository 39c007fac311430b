"""The config of `gpuruntime runtime-api`."""

from collections.abc import Iterator
from pathlib import Path

from attrs import frozen

from gpuruntime.control import HttpAddress, HttpLimits
from gpuruntime.processes.cluster_access import KubeMode
from gpuruntime.processes.configuration.keys import Fault, key, keys, section
from gpuruntime.processes.configuration.notations import (
    ADDRESS,
    DURATION,
    FILE,
    FLAG,
    Notation,
    choice,
    count,
    duration,
    show_seconds,
)
from gpuruntime.processes.configuration.sections import Logging, Namespaces
from gpuruntime.web.auth.scopes import GrantError, parse_grants

__all__ = ["Auth", "Connections", "RuntimeApiConfig", "Tls"]


def _grant(text: str) -> str:
    parse_grants(text)
    return text


_GRANT = Notation("user:NAME=SCOPE or group:NAME=SCOPE, the scope one of read, write, operator", _grant, str)


@frozen
class Tls:
    """The certificate of the API; both files or none. They are read again when they change."""

    cert_file: Path | None = key(FILE, None, "serve HTTPS with this certificate chain (PEM)")
    key_file: Path | None = key(FILE, None, "the key of the certificate (PEM)")

    @property
    def files(self) -> tuple[Path, Path] | None:
        return None if self.cert_file is None or self.key_file is None else (self.cert_file, self.key_file)

    def faults(self) -> Iterator[Fault]:
        if (self.cert_file is None) != (self.key_file is None):
            missing = "certFile" if self.cert_file is None else "keyFile"
            yield Fault(missing, "expected certFile and keyFile, or neither, got one")


@frozen
class Auth:
    """Who may call the API. Without any of these, callers on this machine need no credentials.

    A process that others can reach does not start then.
    """

    token_file: Path | None = key(FILE, None, "bearer tokens, as `gpuruntime token` writes them; read again on change")
    token_review: bool = key(FLAG, False, "take tokens of the cluster made for audience gpuruntime")
    grants: tuple[str, ...] = keys(_GRANT, (), "with tokenReview: what users and groups may do, such as group:ops=read")
    allow_unauthenticated: bool = key(FLAG, False, "listen where others reach us though everybody may do everything")

    def faults(self) -> Iterator[Fault]:
        if self.grants and not self.token_review:
            yield Fault("grants", "expected tokenReview: true with it, which tells who callers are")
        try:
            parse_grants(*self.grants)
        except GrantError as error:
            yield Fault("grants", str(error))


@frozen
class Connections:
    """How many callers are connected to the API at a time, and how long their connections wait.

    A connection that waits for a request gives way to a new one; where all serve requests, the new one gets 503.
    """

    total: int | None = key(
        count(1, 1_000_000),
        None,
        "at most this many at a time; else 10000. Never more than 3/4 of the files that may be opened",
    )
    per_address: int | None = key(
        count(1, 1_000_000), None, "at most this many from one address, such as a load balancer; else 3/4 of total"
    )
    header_timeout: float = key(duration(least=1.0), 10.0, "how long the headers of a request may take")
    idle_timeout: float = key(
        duration(least=1.0), 75.0, "how long a connection waits for its next request; longer than load balancers wait"
    )

    @property
    def limits(self) -> HttpLimits:
        return HttpLimits(
            self.total, self.per_address, head_seconds=self.header_timeout, idle_seconds=self.idle_timeout
        )

    def faults(self) -> Iterator[Fault]:
        if self.total is not None and self.per_address is not None and self.per_address > self.total:
            yield Fault("perAddress", f"expected at most total ({self.total}), got {self.per_address}")


@frozen
class RuntimeApiConfig:
    """What `gpuruntime runtime-api` was told."""

    kubeconfig: Path | None = key(
        FILE, None, "the cluster and who we are in it; else KUBECONFIG, ~/.kube/config, the pod's own account"
    )
    kube_mode: KubeMode = key(
        choice(KubeMode), KubeMode.AUTO, "without a cluster, auto answers 503, required exits, off works in memory"
    )
    namespaces: Namespaces = section(Namespaces)
    http_addr: HttpAddress = key(ADDRESS, HttpAddress("127.0.0.1", 8080), "where the API listens")
    operations_addr: HttpAddress = key(
        ADDRESS,
        HttpAddress("127.0.0.1", 8082),
        "where /livez, /readyz, /metrics and /debug are, for no stranger",
    )
    report_interval: float = key(duration(least=5.0), 30.0, "how often the state of the runtime is logged")
    tls: Tls = section(Tls)
    auth: Auth = section(Auth)
    connections: Connections = section(Connections)
    keep_operations: float = key(
        duration(least=60.0), 86400.0, "how long a replay of a request that has ended is known"
    )
    drain_delay: float = key(
        DURATION, 0.0, "how long requests are still taken after readiness is withdrawn, until load balancers know"
    )
    shutdown_grace: float = key(duration(least=1.0), 30.0, "how long everything gets to stop, drainDelay included")
    logging: Logging = section(Logging)

    def faults(self) -> Iterator[Fault]:
        if self.drain_delay >= self.shutdown_grace:
            grace, delay = show_seconds(self.shutdown_grace), show_seconds(self.drain_delay)
            yield Fault("drainDelay", f"expected less than shutdownGrace ({grace}), got {delay}")
        if self.kube_mode is KubeMode.OFF and self.kubeconfig is not None:
            yield Fault("kubeconfig", "expected none with kubeMode: off, which uses no cluster")
        if self.kube_mode is KubeMode.OFF and self.auth.token_review:
            yield Fault("auth.tokenReview", "expected false with kubeMode: off, which uses no cluster")
        if self.http_addr == self.operations_addr and self.http_addr.port:
            yield Fault("operationsAddr", "expected another address than httpAddr, got the same")
