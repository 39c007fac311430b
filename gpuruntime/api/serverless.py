"""Serverless units: the section of a unit's spec and status, and the names that all parts of a worker share.

A worker is a pod with two containers: the user's program, called the framework, serves HTTP on a unix socket, and the
sidecar brings it invocations from an activator. The controller renders both, and configures them by the variables here.
The sidecar serves HTTP on `HEALTH_PORT` of the pod, for the kubelet:

    /healthz   200 as soon as the process runs; it never asks the framework
    /readyz    200 while the framework is healthy, 503 otherwise
    /livez     503 if the framework does not end what was cancelled: its container has to be restarted; 200 otherwise
    /drain     takes no more work, and answers 200 when what runs has ended; asked before the program gets SIGTERM
"""

from typing import Annotated, Final

from attrs import field, frozen

from gpuruntime.meta import Length, Pattern, Range, Struct, wire

__all__ = [
    "ACTIVATOR_CA_ENV",
    "ACTIVATOR_URL_ENV",
    "CONCURRENCY_ENV",
    "CONTRACT_ENV",
    "DEFAULT_IDLE_SECONDS",
    "DRAIN_PATH",
    "DRAIN_SECONDS_ENV",
    "ENVELOPE",
    "FRAMEWORK_HEALTH_PATH_ENV",
    "FRAMEWORK_INVOKE_PATH_ENV",
    "FRAMEWORK_SOCKET_ENV",
    "FUNCTION_ENV",
    "HEALTH_PATH",
    "HEALTH_PORT",
    "HEALTH_PORT_ENV",
    "LIVE_PATH",
    "MOST_SLOTS",
    "NAMESPACE_ENV",
    "PROGRAM_SOCKET_ENV",
    "RAW",
    "READY_PATH",
    "REQUEST_ID_ENV",
    "REVISION_ENV",
    "SERVERLESS_CONDITION",
    "SIDECAR_NAME",
    "SOCKET_DIRECTORY",
    "TOKEN_AUDIENCE",
    "TOKEN_DIRECTORY",
    "TOKEN_FILE",
    "TOKEN_FILE_ENV",
    "TOKEN_SECONDS",
    "WORKER_ENV",
    "WORKER_NAMESPACE_ENV",
    "WORKER_NAME_ENV",
    "Concurrency",
    "Framework",
    "IdleTimeoutSeconds",
    "RequestID",
    "UnitServerless",
    "UnitServerlessStatus",
]

SIDECAR_NAME: Final = "serverless-sidecar"
"""The name of the sidecar's container."""
TOKEN_AUDIENCE: Final = "gpuruntime-activator"  # noqa: S105  # the audience of tokens, not a token
"""The audience of the sidecar's token: an activator accepts no other."""
TOKEN_SECONDS: Final = 600
"""How long a token of the sidecar is valid; the kubelet renews it before."""
TOKEN_DIRECTORY: Final = "/var/run/secrets/gpuruntime-activator"  # noqa: S105  # a directory
"""Where the token is mounted, in the sidecar alone."""
TOKEN_FILE: Final = f"{TOKEN_DIRECTORY}/token"
SOCKET_DIRECTORY: Final = "/tmp/serverless-framework"  # noqa: S108  # a volume, no temporary file
"""Where sidecar and framework share the socket."""
HEALTH_PORT: Final = 8091
HEALTH_PATH: Final = "/healthz"
READY_PATH: Final = "/readyz"
LIVE_PATH: Final = "/livez"
DRAIN_PATH: Final = "/drain"

# Variables of the sidecar.
ACTIVATOR_URL_ENV: Final = "SERVERLESS_ACTIVATOR_URL"
ACTIVATOR_CA_ENV: Final = "SERVERLESS_ACTIVATOR_CA"
"""PEM text of the certificate authority of the activator; absent for the system's own."""
TOKEN_FILE_ENV: Final = "SERVERLESS_TOKEN_FILE"  # noqa: S105  # the name of a variable
FUNCTION_ENV: Final = "SERVERLESS_FUNCTION"
NAMESPACE_ENV: Final = "SERVERLESS_NAMESPACE"
WORKER_ENV: Final = "SERVERLESS_WORKER"
"""The name of the unit."""
REVISION_ENV: Final = "SERVERLESS_REVISION"
"""The revision of the function that the worker has; empty for a unit that joined."""
CONTRACT_ENV: Final = "SERVERLESS_FRAMEWORK_CONTRACT"
FRAMEWORK_SOCKET_ENV: Final = "SERVERLESS_FRAMEWORK_SOCKET"
HEALTH_PORT_ENV: Final = "SERVERLESS_HEALTH_PORT"
DRAIN_SECONDS_ENV: Final = "SERVERLESS_DRAIN_SECONDS"
"""For how long the sidecar lets running work finish when the pod ends."""

# Variables of both.
CONCURRENCY_ENV: Final = "SERVERLESS_CONCURRENCY"
FRAMEWORK_INVOKE_PATH_ENV: Final = "SERVERLESS_FRAMEWORK_INVOKE_PATH"
FRAMEWORK_HEALTH_PATH_ENV: Final = "SERVERLESS_FRAMEWORK_HEALTH_PATH"

# Variables of the program.
REQUEST_ID_ENV: Final = "SERVERLESS_REQUEST_ID"
WORKER_NAME_ENV: Final = "SERVERLESS_WORKER_NAME"
WORKER_NAMESPACE_ENV: Final = "SERVERLESS_WORKER_NAMESPACE"
PROGRAM_SOCKET_ENV: Final = "SERVERLESS_FRAMEWORK_SOCKET_PATH"

ENVELOPE: Final = "envelope"
"""The framework gets and returns JSON envelopes."""
RAW: Final = "raw"
"""The framework gets the payload as the body of a request, and its response is the result."""
DEFAULT_IDLE_SECONDS: Final = 300
MOST_SLOTS: Final = 1024
SERVERLESS_CONDITION: Final = "ServerlessReady"
"""The type of the condition of a serverless unit."""

# The kernel limits the path of a unix socket to 107 bytes.
_SOCKET_LENGTH: Final = 107
_PATH_LENGTH: Final = 1024
# No empty part, no "." and no "..", so that the socket is in the shared directory.
_PART: Final = r"[A-Za-z0-9_-][A-Za-z0-9._-]*"
_HTTP_PATH: Final = Pattern(
    r"^/[-A-Za-z0-9._~!$&'()*+,;=:@%/]+$", description="a path that begins with a slash and names more than /"
)

_REQUEST_ID_LENGTH: Final = 128
_REQUEST_ID_CHARACTERS: Final = "lower-case letters, digits, '-' and '_'"

RequestID = Annotated[
    str,
    Length(minimum=1, maximum=_REQUEST_ID_LENGTH),
    Pattern("^[a-z0-9_-]+$", description=_REQUEST_ID_CHARACTERS),
]
"""The name under which callers invoke a function."""
Concurrency = Annotated[int, Range(minimum=1, maximum=MOST_SLOTS)]
IdleTimeoutSeconds = Annotated[int, Range(minimum=0, maximum=604800)]


@frozen
class Framework(Struct):
    """How the sidecar talks to the program of a worker: HTTP/1.1 on a unix socket."""

    contract: Annotated[str, Pattern(f"^({ENVELOPE}|{RAW})$"), Length(maximum=8)] = ENVELOPE
    """envelope: the program gets a JSON object with id, headers and payload, and returns one with status, headers and
    body. raw: it gets the payload as it is, and its response is the result; for any HTTP server."""
    socket_path: Annotated[
        str,
        Length(maximum=_SOCKET_LENGTH),
        Pattern(
            f"^{SOCKET_DIRECTORY}(/{_PART})+$",
            description=f"a path of at most {_SOCKET_LENGTH} characters below {SOCKET_DIRECTORY}/, without '..'",
        ),
    ] = f"{SOCKET_DIRECTORY}/framework.sock"
    """Path of the unix socket that the program serves, below /tmp/serverless-framework/."""
    invoke_path: Annotated[str, Length(maximum=_PATH_LENGTH), _HTTP_PATH] = "/invoke"
    """Path of the POST request for an invocation."""
    health_path: Annotated[str, Length(maximum=_PATH_LENGTH), _HTTP_PATH] = "/healthz"
    """Path of the GET request that is answered with 200 as soon as the program can serve. The worker is ready then."""
    startup_timeout_seconds: Annotated[int, Range(minimum=1, maximum=86400)] = 600
    """Seconds after which a program that is not healthy yet is restarted."""


@frozen
class UnitServerless(Struct):
    """Makes the unit a worker of the function with this requestID, in the unit's namespace.

    If there is no such function, one is created from the unit's spec. The unit is never scaled down or replaced.
    """

    request_id: Annotated[
        str,
        Length(maximum=_REQUEST_ID_LENGTH),
        Pattern("^[a-z0-9_-]*$", description=_REQUEST_ID_CHARACTERS),
    ] = field(default="", metadata=wire("requestID"))
    """The requestID of the function, which a worker needs. A requestID alone makes the unit a worker."""
    enabled: bool = True
    """Whether the unit is a worker. false keeps the settings without effect."""
    min_available_count: Annotated[int, Range(minimum=0, maximum=1000)] = 0
    """Number of workers that a function made from this unit keeps, this unit included."""
    idle_timeout_seconds: IdleTimeoutSeconds = DEFAULT_IDLE_SECONDS
    """Idle timeout of a function made from this unit. 0 is the default of 300 seconds."""
    min_request_count: Annotated[int, Range(minimum=0, maximum=2**31 - 1)] = 0
    """Accepted for compatibility. It has no effect."""
    concurrency: Concurrency = 1
    """Number of invocations that the unit runs at a time."""
    framework: Framework = field(default=Framework())


@frozen
class UnitServerlessStatus(Struct):
    """Observed state of the worker."""

    phase: str | None = None
    """Pending, Ready or Failed."""
    function: str | None = None
    """Name of the function that the unit is a worker of."""
    socket_path: str | None = None
    """Path of the program's unix socket."""
    invoke_path: str | None = None
    """Path of invocations."""
    health_path: str | None = None
    """Path of health checks."""
