"""Certificates, a clock to move, a TLS server that says who came, HTTP servers to script, and clients for them."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import pytest
from aiohttp import web
from attrs import frozen
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from multidict import CIMultiDict, CIMultiDictProxy

from gpuruntime.kube import Authorization, Client, Endpoint, Transport, from_kubeconfig
from gpuruntime.testing import ClusterAccess
from tests.kept_namespaces import kube_namespace

__all__ = ["kube_namespace"]


@frozen
class Pair:
    certificate: bytes
    key: bytes


class Authority:
    """A private authority whose certificates lack key identifiers, as those of many clusters do."""

    def __init__(self, name: str) -> None:
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self._signed(self._name, self._key, x509.BasicConstraints(ca=True, path_length=None))

    def issue(self, name: str) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._signed(subject, key, x509.SubjectAlternativeName([x509.DNSName(name)]))
        return Pair(certificate, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))

    def _signed(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, extension: x509.ExtensionType) -> bytes:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(extension, critical=False)
            .sign(self._key, hashes.SHA256())
            .public_bytes(Encoding.PEM)
        )


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority("first")


@pytest.fixture(scope="session")
def other_authority() -> Authority:
    return Authority("second")


class Connect(Protocol):
    """Connects, expecting a server of the given or else the right name; returns the name of the client it saw."""

    async def __call__(self, client: ssl.SSLContext, expect: str | None = None) -> str: ...


Server = Callable[[Authority, str], AbstractAsyncContextManager[Connect]]


@pytest.fixture
def server(tmp_path: Path) -> Server:
    """Opens a server under a name."""

    @asynccontextmanager
    async def open_server(authority: Authority, name: str) -> AsyncIterator[Connect]:
        directory = tmp_path / f"server-{name}"
        directory.mkdir()
        pair = authority.issue(name)
        (directory / "pair.pem").write_bytes(pair.certificate + pair.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(directory / "pair.pem")
        context.load_verify_locations(cadata=authority.certificate.decode())
        context.verify_mode = ssl.CERT_OPTIONAL

        async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            seen = writer.get_extra_info("peercert") or {"subject": ((("commonName", "nobody"),),)}
            writer.write(seen["subject"][0][0][1].encode())
            writer.close()

        async def connect(client: ssl.SSLContext, expect: str | None = None) -> str:
            port = listening.sockets[0].getsockname()[1]
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=client, server_hostname=expect or name
            )
            greeting = await reader.read()
            writer.close()
            await writer.wait_closed()
            return greeting.decode()

        listening = await asyncio.start_server(greet, "127.0.0.1", 0, ssl=context)
        async with listening:
            yield connect

    return open_server


@pytest.fixture
async def advance(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Moves the clock of the running loop forward."""
    loop = asyncio.get_running_loop()
    real, ahead = loop.time, [0.0]
    monkeypatch.setattr(loop, "time", lambda: real() + ahead[0])

    def move(seconds: float) -> None:
        ahead[0] += seconds

    return move


class Tokens:
    """Credentials that try one token after the other: a refusal of the current one makes the next one current."""

    def __init__(self, endpoint: Endpoint, *tokens: str, ssl: ssl.SSLContext | None = None) -> None:
        self.endpoint = endpoint
        self.refusals = 0
        self._left = [
            Authorization(CIMultiDictProxy(CIMultiDict(Authorization=f"Bearer {token}")), ssl) for token in tokens
        ]

    async def authorize(self) -> Authorization:
        return self._left[0]

    async def refused(self, used: Authorization) -> bool:
        self.refusals += 1
        if used is self._left[0] and len(self._left) > 1:
            self._left.pop(0)
        return used is not self._left[0]


Handler = Callable[[web.BaseRequest], Any]
Serve = Callable[..., Any]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """`await serve(handler)` starts a server on loopback, with TLS if given a context, and gives its address."""
    async with AsyncExitStack() as stack:

        async def start(handler: Handler, tls: ssl.SSLContext | None = None) -> str:
            server = web.Server(handler, access_log=None, handler_cancellation=True)
            runner = web.ServerRunner(server, shutdown_timeout=0.01)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
            return f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"

        yield start


class TransportTo(Protocol):
    """Opens a transport to an address, or with credentials; the rest is for Transport."""

    def __call__(self, target: str | Tokens, **options: Any) -> Transport: ...


@pytest.fixture
async def transport_to() -> AsyncIterator[TransportTo]:
    """The transports are closed at the end."""
    async with AsyncExitStack() as stack:

        def open_transport(target: str | Tokens, **options: Any) -> Transport:
            credentials = Tokens(Endpoint(target), "token") if isinstance(target, str) else target
            transport = Transport(credentials, user_agent="test", **options)
            stack.push_async_callback(transport.close)
            return transport

        yield open_transport


@pytest.fixture
async def transport(kube_cluster: ClusterAccess) -> AsyncIterator[Transport]:
    """To the real server, as its administrator."""
    async with Transport(from_kubeconfig(kube_cluster.kubeconfig), user_agent="test") as opened:
        yield opened


@pytest.fixture
def client(transport: Transport) -> Client:
    """Of the real server, as its administrator."""
    return Client(transport, field_manager="tester")


@pytest.fixture
def tokens() -> type[Tokens]:
    return Tokens
