"""The settings of a sidecar, which are the variables that the controller gives its container."""

import math
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urlsplit

from attrs import field, frozen

from gpuruntime.api.serverless import (
    ACTIVATOR_CA_ENV,
    ACTIVATOR_URL_ENV,
    CONCURRENCY_ENV,
    CONTRACT_ENV,
    DRAIN_SECONDS_ENV,
    ENVELOPE,
    FRAMEWORK_HEALTH_PATH_ENV,
    FRAMEWORK_INVOKE_PATH_ENV,
    FRAMEWORK_SOCKET_ENV,
    FUNCTION_ENV,
    HEALTH_PORT,
    HEALTH_PORT_ENV,
    MOST_SLOTS,
    NAMESPACE_ENV,
    RAW,
    REQUEST_ID_ENV,
    REVISION_ENV,
    TOKEN_FILE_ENV,
    WORKER_ENV,
    Framework,
)

__all__ = ["VARIABLES", "SettingsError", "SidecarSettings", "read_settings"]

T = TypeVar("T")

_WORKER_PATH: Final = "/v1/worker"
_LONGEST_SOCKET: Final = 107
_HIGHEST_PORT: Final = 65535
_MOST_SECONDS: Final = 7 * 24 * 3600
_DRAIN_SECONDS: Final = 30.0
_FRAMEWORK: Final = Framework()

VARIABLES: Final[Mapping[str, str]] = {
    ACTIVATOR_URL_ENV: "ws:// or wss:// URL of the activator (required)",
    ACTIVATOR_CA_ENV: "PEM text of the certificate authority of the activator (those of the system)",
    TOKEN_FILE_ENV: "file with the token of the pod, read at each connect (required)",
    FUNCTION_ENV: "name of the function (required)",
    REQUEST_ID_ENV: "name under which callers invoke the function (the name of the function)",
    NAMESPACE_ENV: "namespace of the function and the worker (required)",
    WORKER_ENV: "name of the worker's unit (required)",
    REVISION_ENV: "revision of the function that the worker has (none)",
    CONCURRENCY_ENV: f"invocations at a time, 1 to {MOST_SLOTS} (1)",
    CONTRACT_ENV: f"{ENVELOPE} or {RAW} ({ENVELOPE})",
    FRAMEWORK_SOCKET_ENV: f"unix socket of the program ({_FRAMEWORK.socket_path})",
    FRAMEWORK_INVOKE_PATH_ENV: f"path of invocations ({_FRAMEWORK.invoke_path})",
    FRAMEWORK_HEALTH_PATH_ENV: f"path of health checks ({_FRAMEWORK.health_path})",
    HEALTH_PORT_ENV: f"port of /healthz, /readyz, /livez and /drain; 0 is a free one ({HEALTH_PORT})",
    DRAIN_SECONDS_ENV: f"seconds for which running work may finish when the pod ends ({_DRAIN_SECONDS:g})",
}
"""Each variable with what it is and, in parentheses, its default."""


class SettingsError(Exception):
    """Variables are missing or invalid; each of `problems` is one sentence."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


@frozen
class SidecarSettings:
    """How a sidecar is configured."""

    activator_url: str
    """The URL of the WebSocket, with its path."""
    token_file: Path
    function: str
    namespace: str
    worker: str
    request_id: str = ""
    revision: str = ""
    activator_ca: str = field(default="", repr=False)
    slots: int = 1
    contract: str = ENVELOPE
    socket: Path = Path(_FRAMEWORK.socket_path)
    invoke_path: str = _FRAMEWORK.invoke_path
    health_path: str = _FRAMEWORK.health_path
    health_port: int = HEALTH_PORT
    drain_seconds: float = _DRAIN_SECONDS

    def tls(self) -> ssl.SSLContext | None:
        """What checks the activator's certificate; None for ws://."""
        if not self.activator_url.startswith("wss://"):
            return None
        context = ssl.create_default_context(cadata=self.activator_ca or None)
        # Python 3.13 began to refuse authorities without key identifiers, which those of many clusters lack.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        return context


def read_settings(environment: Mapping[str, str]) -> SidecarSettings:
    """The settings in the environment. An empty variable is an absent one.

    Raises:
        SettingsError: variables are missing or invalid, all of which are named.
    """
    variables = _Variables(environment)
    function = variables.required(FUNCTION_ENV)
    settings = SidecarSettings(
        activator_url=variables.parsed(ACTIVATOR_URL_ENV, _websocket_url, ""),
        activator_ca=variables.optional(ACTIVATOR_CA_ENV, _certificates, ""),
        token_file=Path(variables.required(TOKEN_FILE_ENV)),
        function=function,
        request_id=variables.optional(REQUEST_ID_ENV, str, function),
        namespace=variables.required(NAMESPACE_ENV),
        worker=variables.required(WORKER_ENV),
        revision=variables.optional(REVISION_ENV, str, ""),
        slots=variables.optional(CONCURRENCY_ENV, _number(1, MOST_SLOTS), 1),
        contract=variables.optional(CONTRACT_ENV, _contract, ENVELOPE),
        socket=variables.optional(FRAMEWORK_SOCKET_ENV, _socket, Path(_FRAMEWORK.socket_path)),
        invoke_path=variables.optional(FRAMEWORK_INVOKE_PATH_ENV, _http_path, _FRAMEWORK.invoke_path),
        health_path=variables.optional(FRAMEWORK_HEALTH_PATH_ENV, _http_path, _FRAMEWORK.health_path),
        health_port=variables.optional(HEALTH_PORT_ENV, _number(0, _HIGHEST_PORT), HEALTH_PORT),
        drain_seconds=variables.optional(DRAIN_SECONDS_ENV, _seconds, _DRAIN_SECONDS),
    )
    if variables.problems:
        raise SettingsError(tuple(variables.problems))
    return settings


class _Variables:
    """Reads variables, and collects what is wrong with them."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self.problems: list[str] = []

    def required(self, name: str) -> str:
        return self.parsed(name, str, "")

    def parsed(self, name: str, parse: Callable[[str], T], default: T) -> T:
        if not self._environment.get(name):
            self.problems.append(f"{name}: expected {VARIABLES[name].removesuffix(' (required)')}, got none")
        return self.optional(name, parse, default)

    def optional(self, name: str, parse: Callable[[str], T], default: T) -> T:
        text = self._environment.get(name)
        if not text:
            return default
        try:
            return parse(text)
        except ValueError as error:
            self.problems.append(f"{name}: {error}")
            return default


def _websocket_url(text: str) -> str:
    expected = "expected a URL such as wss://gpuruntime-activator.gpuruntime-system:8443"
    try:
        parts = urlsplit(text)
        has_address = parts.scheme in {"ws", "wss"} and bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise ValueError(f"{expected}, got {text!r}: {error}") from None
    if not has_address or parts.username is not None or parts.query or parts.fragment:
        raise ValueError(f"{expected}, got {text!r}")
    path = parts.path.rstrip("/")
    return parts._replace(path=path if path.endswith(_WORKER_PATH) else f"{path}{_WORKER_PATH}").geturl()


def _certificates(text: str) -> str:
    try:
        found = ssl.create_default_context(cadata=text).get_ca_certs(binary_form=True)
    except (ssl.SSLError, ValueError) as error:
        raise ValueError(f"expected certificates in PEM, got {len(text)} characters: {error}") from None
    if not found:
        raise ValueError("expected certificates of an authority in PEM, got none")
    return text


def _contract(text: str) -> str:
    if text not in {ENVELOPE, RAW}:
        raise ValueError(f"expected {ENVELOPE} or {RAW}, got {text!r}")
    return text


def _socket(text: str) -> Path:
    path = Path(text)
    if not path.is_absolute() or len(text.encode()) > _LONGEST_SOCKET or "\0" in text:
        raise ValueError(f"expected an absolute path of at most {_LONGEST_SOCKET} bytes, got {text!r}")
    return path


def _http_path(text: str) -> str:
    if not text.startswith("/") or not text.isascii() or not text.isprintable() or any(c in text for c in " #?"):
        raise ValueError(f"expected a path that begins with '/', such as /invoke, got {text!r}")
    return text


def _number(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isascii() or not text.isdecimal() or not least <= int(text) <= most:
            raise ValueError(f"expected a number from {least} to {most}, got {text!r}")
        return int(text)

    return parse


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= _MOST_SECONDS:
        raise ValueError(f"expected seconds from 0 to {_MOST_SECONDS}, got {text!r}")
    return seconds
