"""One run of an exec credential plugin, by the protocol of client.authentication.k8s.io."""

import asyncio
import base64
import os
import shutil
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import Any, BinaryIO

import orjson
from attrs import field, frozen

from gpuruntime.kube.auth.credentials import CredentialsError
from gpuruntime.kube.auth.identity import Identity, bearer
from gpuruntime.kube.auth.tls import Pem, Trust, client_context

__all__ = ["API_VERSIONS", "ExecPlugin", "Issued", "parse_output", "run"]

API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")

_OUTPUT_LIMIT = 1 << 20
_COMPLAINT_LIMIT = 500


@frozen
class ExecPlugin:
    """How to run a plugin. `command` is a path or a name to look up on the PATH of `environ`.

    `cluster` is the cluster info for the plugin, in the field names of the protocol, and `cluster_ca` its authority;
    both are None unless provideClusterInfo is set. `place` names the plugin in errors.
    """

    place: str
    api_version: str
    command: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    environ: Mapping[str, str] = field(factory=dict, repr=False)
    install_hint: str | None = None
    cluster: Mapping[str, Any] | None = field(default=None, repr=False)
    cluster_ca: Pem | None = None
    timeout: float = 60.0


@frozen
class Issued:
    """An identity that a plugin issued, and when it expires; None is never."""

    identity: Identity
    expires: datetime | None


async def run(plugin: ExecPlugin) -> Issued:
    """Run the plugin once, without a terminal. On a timeout or cancellation its process group is killed.

    Raises:
        CredentialsError: the plugin is missing, failed, timed out, or printed no valid credentials.
    """
    output = await _output(plugin)
    if len(output) > _OUTPUT_LIMIT:
        raise _error(plugin, f"printed more than {_OUTPUT_LIMIT} bytes")
    return parse_output(output, plugin.api_version, _name(plugin))


def parse_output(output: bytes, api_version: str, place: str) -> Issued:
    """Parse the output of a plugin.

    Raises:
        CredentialsError: it is not an ExecCredential of this version, or holds no usable credentials.
    """
    try:
        document = orjson.loads(output)
    except orjson.JSONDecodeError as error:
        # Not chained: the decoder's error holds the whole output, which may contain a token.
        raise CredentialsError(f"{place} printed no JSON: {error.msg} at byte {error.pos}") from None
    if not isinstance(document, dict) or document.get("kind") != "ExecCredential":
        raise CredentialsError(f"{place} printed no ExecCredential")
    if document.get("apiVersion") != api_version:
        found = str(document.get("apiVersion"))[:100]
        raise CredentialsError(f"{place} printed apiVersion {found!r}, expected {api_version!r} as configured")
    status = document.get("status")
    if not isinstance(status, dict):
        raise CredentialsError(f"{place} printed no status")
    return Issued(_identity(status, place), _expiry(status, place))


def _identity(status: Mapping[str, Any], place: str) -> Identity:
    token = _text(status, "token", place)
    certificate = _text(status, "clientCertificateData", place)
    key = _text(status, "clientKeyData", place)
    if (certificate is None) != (key is None):
        raise CredentialsError(f"{place} printed only one of clientCertificateData and clientKeyData")
    if token is None and certificate is None:
        raise CredentialsError(f"{place} printed neither a token nor a certificate")
    identity = Identity(
        authorization=None if token is None else bearer(token, f"{place}: status.token"),
        certificate=None if certificate is None else Pem(f"{place}: clientCertificateData", certificate.encode()),
        key=None if key is None else Pem(f"{place}: clientKeyData", key.encode()),
    )
    if identity.certificate is not None:
        # A key pair that does not load is a failure of the plugin.
        client_context(Trust(verify=False), identity.certificate, identity.key)
    return identity


def _expiry(status: Mapping[str, Any], place: str) -> datetime | None:
    text = _text(status, "expirationTimestamp", place)
    if text is None:
        return None
    try:
        expires = datetime.fromisoformat(text)
    except ValueError as error:
        raise CredentialsError(f"{place} printed a status.expirationTimestamp that is not an RFC 3339 time") from error
    if expires.tzinfo is None:
        raise CredentialsError(f"{place} printed status.expirationTimestamp without a time zone")
    return expires


def _text(status: Mapping[str, Any], name: str, place: str) -> str | None:
    value = status.get(name)
    if value is not None and not isinstance(value, str):
        raise CredentialsError(f"{place} printed status.{name} of type {type(value).__name__}, expected a string")
    return value or None


class _Capture(asyncio.Protocol):
    """The last bytes of a pipe."""

    def __init__(self, limit: int) -> None:
        self.tail = bytearray()
        self.ended = asyncio.Event()
        self._limit = limit

    def data_received(self, data: bytes) -> None:
        self.tail += data
        del self.tail[: -self._limit]

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.ended.set()


@asynccontextmanager
async def _capture(limit: int) -> AsyncIterator[tuple[_Capture, BinaryIO]]:
    """A pipe that is drained continuously, and its writing end, which the caller may close early.

    It is closed at the end even if a daemon that the plugin started still holds the writing end: with asyncio's own
    pipes, waiting for the process would wait for such a daemon, too.
    """
    reading, writing = os.pipe()
    loop = asyncio.get_running_loop()
    with os.fdopen(writing, "wb", 0) as end:
        transport, capture = await loop.connect_read_pipe(lambda: _Capture(limit), os.fdopen(reading, "rb", 0))
        try:
            yield capture, end
        finally:
            transport.close()


async def _output(plugin: ExecPlugin) -> bytes:
    async with _capture(_OUTPUT_LIMIT + 1) as (output, stdout), _capture(_COMPLAINT_LIMIT) as (complaint, stderr):
        try:
            async with asyncio.timeout(plugin.timeout):
                process = await _start(plugin, stdout, stderr)
                stdout.close()
                stderr.close()
                code = await _end(process, output)
        except TimeoutError as error:
            raise _error(plugin, f"did not finish in {plugin.timeout:g} s", complaint) from error
        if code != 0:
            raise _error(plugin, f"ended with code {code}", complaint)
        return bytes(output.tail)


async def _start(plugin: ExecPlugin, stdout: BinaryIO, stderr: BinaryIO) -> asyncio.subprocess.Process:
    command = shutil.which(plugin.command, path=plugin.environ.get("PATH", os.defpath))
    if command is None:
        hint = f": {_one_line(plugin.install_hint)}" if plugin.install_hint else ""
        raise _error(plugin, f"is not installed or not executable{hint}")
    starting = asyncio.create_task(
        asyncio.create_subprocess_exec(
            command,
            *plugin.args,
            env={**plugin.environ, **dict(plugin.env), "KUBERNETES_EXEC_INFO": _exec_info(plugin)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # Cancelling the start would kill the plugin, but not the processes that it has started by then.
        with suppress(OSError, ValueError):
            await _kill(await starting)
        raise
    except (OSError, ValueError) as error:
        raise _error(plugin, f"cannot be started: {error}") from error


async def _end(process: asyncio.subprocess.Process, output: _Capture) -> int:
    """The exit code, after all output has been read."""
    code: int | None = None
    try:
        await output.ended.wait()
        code = await process.wait()
    finally:
        if code is None:
            await _kill(process)
    return code


def _exec_info(plugin: ExecPlugin) -> str:
    spec: dict[str, Any] = {"interactive": False}
    if plugin.cluster is not None:
        spec["cluster"] = dict(plugin.cluster)
        if plugin.cluster_ca is not None:
            spec["cluster"]["certificate-authority-data"] = base64.b64encode(plugin.cluster_ca.read()).decode("ascii")
    return orjson.dumps({"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}).decode()


async def _kill(process: asyncio.subprocess.Process) -> None:
    # The plugin leads its own process group, which may outlive it.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _name(plugin: ExecPlugin) -> str:
    return f"{plugin.place}: plugin {plugin.command!r}"


def _error(plugin: ExecPlugin, problem: str, complaint: _Capture | None = None) -> CredentialsError:
    said = _one_line(complaint.tail.decode("utf-8", "replace")) if complaint else ""
    return CredentialsError(f"{_name(plugin)} {problem}" + (f"; it said: {said}" if said else ""))


def _one_line(text: str) -> str:
    """The text on one line, without unprintable characters."""
    return "".join(character if character.isprintable() else "?" for character in " ".join(text.split()))
