"""The readiness probe of a unit's container, with the fields of Kubernetes' own probes."""

from typing import Annotated, ClassVar, Final

from attrs import field, frozen

from gpuruntime.meta import Cel, Items, Length, Pattern, Range, Rule, Struct, wire

__all__ = [
    "Argument",
    "ExecCheck",
    "GrpcCheck",
    "HttpGetCheck",
    "HttpHeader",
    "ReadinessProbe",
    "TcpSocketCheck",
]

Argument = Annotated[str, Pattern(r"^[^\x00]*$", description="a string without NUL")]
"""A string that can be a process argument or an environment value: anything without NUL, which would terminate it."""
_HEADER_VALUE: Final = Pattern(r"^[^\x00-\x08\x0a-\x1f\x7f]*$", description="no control characters except tabs")
_PRINTABLE: Final = Pattern(r"^[^\x00-\x1f\x7f]*$", description="no control characters")
_PORT: Final = Cel(
    "type(self) == int ? self >= 1 && self <= 65535 : size(self) >= 1 && size(self) <= 15",
    message="must be a number from 1 to 65535 or the name of a port",
    check=lambda port: 1 <= port <= 65535 if isinstance(port, int) else 1 <= len(port) <= 15,
    expected="a number from 1 to 65535, or the name of a port",
)


@frozen
class HttpHeader(Struct):
    """A custom header of the request."""

    name: Annotated[str, Length(minimum=1, maximum=256), Pattern("^[-A-Za-z0-9]+$", description="the name of a header")]
    """Name of the header, such as Host."""
    value: Annotated[str, Length(maximum=4096), _HEADER_VALUE] = field(default="", metadata=wire(sensitive=True))
    """Value of the header."""


@frozen
class HttpGetCheck(Struct):
    """An HTTP GET request. A status code from 200 to 399 is a success."""

    port: Annotated[int | str, _PORT]
    """Number of the port, or the name of a port of the template."""
    path: Annotated[str | None, Length(maximum=2048), _PRINTABLE] = field(default=None, metadata=wire(sensitive=True))
    """Path and query of the request. Defaults to /."""
    scheme: Annotated[str | None, Pattern("^(HTTP|HTTPS)$"), Length(maximum=5)] = None
    """HTTP or HTTPS. Defaults to HTTP. The certificate is not verified."""
    http_headers: Annotated[tuple[HttpHeader, ...], Items(maximum=32)] = ()
    """Custom headers of the request. Repeated headers are allowed."""


@frozen
class TcpSocketCheck(Struct):
    """A TCP connection to the unit. An accepted connection is a success."""

    port: Annotated[int | str, _PORT]
    """Number of the port, or the name of a port of the template."""


@frozen
class ExecCheck(Struct):
    """A command in the container. Exit code 0 is a success."""

    command: Annotated[tuple[Argument, ...], Items(minimum=1, maximum=256)] = field(metadata=wire(sensitive=True))
    """The program and its arguments. It is not run in a shell."""


@frozen
class GrpcCheck(Struct):
    """A call of the gRPC health checking protocol. The status SERVING is a success."""

    port: Annotated[int, Range(minimum=1, maximum=65535)]
    """Number of the port."""
    service: Annotated[str | None, Length(maximum=1024), _PRINTABLE] = None
    """Name of the service in the health check request. Unset checks the server as a whole."""


@frozen
class ReadinessProbe(Struct):
    """A periodic check whether the unit can serve, by exactly one of httpGet, tcpSocket, exec and grpc.

    While it succeeds, the unit receives traffic and its phase is Ready.
    """

    RULES: ClassVar[tuple[Rule, ...]] = (
        Cel(
            "[has(self.httpGet), has(self.tcpSocket), has(self.exec), has(self.grpc)].exists_one(given, given)",
            message="exactly one of httpGet, tcpSocket, exec and grpc must be set",
            check=lambda probe: [probe.http_get, probe.tcp_socket, probe.exec, probe.grpc].count(None) == 3,
            expected="exactly one of httpGet, tcpSocket, exec and grpc",
        ),
    )

    http_get: HttpGetCheck | None = None
    """Probes by an HTTP GET request."""
    tcp_socket: TcpSocketCheck | None = None
    """Probes by a TCP connection."""
    exec: ExecCheck | None = None
    """Probes by a command in the container."""
    grpc: GrpcCheck | None = None
    """Probes by a gRPC health check request."""
    initial_delay_seconds: Annotated[int | None, Range(minimum=0, maximum=86400)] = None
    """Seconds from the start of the container to the first probe. Defaults to 0."""
    period_seconds: Annotated[int | None, Range(minimum=1, maximum=86400)] = None
    """Seconds between probes. Defaults to 10."""
    timeout_seconds: Annotated[int | None, Range(minimum=1, maximum=86400)] = None
    """Seconds after which a probe times out. Defaults to 1."""
    success_threshold: Annotated[int | None, Range(minimum=1, maximum=1000)] = None
    """Consecutive successes that make the unit ready. Defaults to 1."""
    failure_threshold: Annotated[int | None, Range(minimum=1, maximum=1000)] = None
    """Consecutive failures that make the unit not ready. Defaults to 3."""
