"""How to tell that a unit can serve: the readiness probe of its container, in the words of Kubernetes."""

from typing import Annotated, ClassVar, Final

from attrs import field, frozen

from gpuruntime.meta import Cel, Items, Length, Pattern, Range, Struct, wire

__all__ = [
    "Argument",
    "ExecCheck",
    "GrpcCheck",
    "HttpGetCheck",
    "HttpHeader",
    "ReadinessProbe",
    "TcpSocketCheck",
]

Argument = Annotated[str, Pattern(r"^[^\x00]*$")]
"""What a process can be given as an argument or in its environment, where a NUL would be the end of it."""
_HEADER_VALUE: Final = Pattern(r"^[^\x00-\x08\x0a-\x1f\x7f]*$")
_PRINTABLE: Final = Pattern(r"^[^\x00-\x1f\x7f]*$")
_PORT: Final = Cel(
    "type(self) == int ? self >= 1 && self <= 65535 : size(self) >= 1 && size(self) <= 15",
    message="expected a number from 1 to 65535, or the name of a port",
)


@frozen
class HttpHeader(Struct):
    """A header of the request."""

    name: Annotated[str, Length(minimum=1, maximum=256), Pattern("^[-A-Za-z0-9]+$")]
    """Name of the header, such as Host."""
    value: Annotated[str, Length(maximum=4096), _HEADER_VALUE] = field(default="", metadata=wire(sensitive=True))
    """Value of the header."""


@frozen
class HttpGetCheck(Struct):
    """A GET request to the unit; a status from 200 to 399 means that it is ready."""

    port: Annotated[int | str, _PORT]
    """Number of the port, or the name of one of the ports of the template."""
    path: Annotated[str | None, Length(maximum=2048), _PRINTABLE] = field(default=None, metadata=wire(sensitive=True))
    """Path and query of the request; / unless given."""
    scheme: Annotated[str | None, Pattern("^(HTTP|HTTPS)$"), Length(maximum=5)] = None
    """HTTP or HTTPS; HTTP unless given. The certificate is not checked."""
    http_headers: Annotated[tuple[HttpHeader, ...], Items(maximum=32)] = ()
    """Headers of the request. One name may be there several times."""


@frozen
class TcpSocketCheck(Struct):
    """A connection to the unit; that it is accepted means that it is ready."""

    port: Annotated[int | str, _PORT]
    """Number of the port, or the name of one of the ports of the template."""


@frozen
class ExecCheck(Struct):
    """A command inside the unit; that it ends with 0 means that it is ready."""

    command: Annotated[tuple[Argument, ...], Items(minimum=1, maximum=256)] = field(metadata=wire(sensitive=True))
    """The program and its arguments. There is no shell around it."""


@frozen
class GrpcCheck(Struct):
    """A call of the gRPC health protocol; the answer SERVING means that it is ready."""

    port: Annotated[int, Range(minimum=1, maximum=65535)]
    """Number of the port."""
    service: Annotated[str | None, Length(maximum=1024), _PRINTABLE] = None
    """Name of the service that is asked for; the server as a whole unless given."""


@frozen
class ReadinessProbe(Struct):
    """How to tell that the unit can serve: exactly one of httpGet, tcpSocket, exec and grpc, and how often to ask.

    Traffic reaches the unit, and its phase is Ready, while the answer is yes.
    """

    RULES: ClassVar[tuple[Cel, ...]] = (
        Cel(
            "[has(self.httpGet), has(self.tcpSocket), has(self.exec), has(self.grpc)].exists_one(given, given)",
            message="expected exactly one of httpGet, tcpSocket, exec and grpc",
        ),
    )

    http_get: HttpGetCheck | None = None
    """Asks by an HTTP request."""
    tcp_socket: TcpSocketCheck | None = None
    """Asks by opening a connection."""
    exec: ExecCheck | None = None
    """Asks by running a command in the container."""
    grpc: GrpcCheck | None = None
    """Asks by a call of the gRPC health protocol."""
    initial_delay_seconds: Annotated[int | None, Range(minimum=0, maximum=86400)] = None
    """Seconds from the start of the container to the first question; 0 unless given."""
    period_seconds: Annotated[int | None, Range(minimum=1, maximum=86400)] = None
    """Seconds from question to question; 10 unless given."""
    timeout_seconds: Annotated[int | None, Range(minimum=1, maximum=86400)] = None
    """Seconds after which no answer means no; 1 unless given."""
    success_threshold: Annotated[int | None, Range(minimum=1, maximum=1000)] = None
    """How many times yes in a row make the unit ready; 1 unless given."""
    failure_threshold: Annotated[int | None, Range(minimum=1, maximum=1000)] = None
    """How many times no in a row make it not ready; 3 unless given."""
