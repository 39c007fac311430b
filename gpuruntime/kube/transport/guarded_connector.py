"""Connections of aiohttp that call a guard before they send."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohappyeyeballs import start_connection
from aiohttp.client_proto import ResponseHandler

from gpuruntime.kube.transport.guarded_socket import GuardedSocket

__all__ = ["GuardedConnector"]


class GuardedConnector(aiohttp.TCPConnector):
    """Opens connections that call a guard before they send. The two methods override those in which aiohttp takes a
    transport of the loop.
    """

    async def _wrap_create_connection(
        self,
        *args: Callable[[], ResponseHandler],
        addr_infos: list[Any],
        req: aiohttp.ClientRequest,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's own name for it
        client_error: type[Exception] = aiohttp.ClientConnectorError,
        **kwargs: Any,
    ) -> tuple[asyncio.Transport, ResponseHandler]:
        (factory,) = args
        async with _connecting(req, timeout, client_error):
            sock = await start_connection(
                addr_infos,
                happy_eyeballs_delay=self._happy_eyeballs_delay,
                interleave=self._interleave,
                socket_factory=self._socket_factory,
            )
            protocol = factory()
            try:
                opened: asyncio.Transport = GuardedSocket(asyncio.get_running_loop(), sock, protocol)
            except OSError:
                sock.close()
                raise
            if kwargs.get("ssl"):
                opened = await _secured(opened, protocol, kwargs["ssl"], kwargs.get("server_hostname"))
            protocol.connection_made(opened)
            return opened, protocol

    async def _start_tls_connection(
        self,
        underlying_transport: asyncio.Transport,
        req: aiohttp.ClientRequest,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's own name for it
        client_error: type[Exception] = aiohttp.ClientConnectorError,
    ) -> tuple[asyncio.BaseTransport, ResponseHandler]:
        context = self._get_ssl_context(req)
        if context is None:
            raise RuntimeError("cannot start TLS on a proxied connection without a TLS context")
        protocol = self._factory()
        async with _connecting(req, timeout, client_error):
            secured = await _secured(underlying_transport, protocol, context, req.server_hostname or req.host)
            protocol.connection_made(secured)
            return secured, protocol


@asynccontextmanager
async def _connecting(
    req: aiohttp.ClientRequest, limit: aiohttp.ClientTimeout, client_error: type[Exception]
) -> AsyncIterator[None]:
    """Raise the errors of aiohttp if a connection cannot be opened."""
    try:
        async with asyncio.timeout(limit.sock_connect):
            yield
    except ssl.CertificateError as error:
        raise aiohttp.ClientConnectorCertificateError(req.connection_key, error) from error
    except ssl.SSLError as error:
        raise aiohttp.ClientConnectorSSLError(req.connection_key, error) from error
    except OSError as error:
        if error.errno is None and isinstance(error, TimeoutError):
            raise
        raise client_error(req.connection_key, error) from error


async def _secured(
    opened: asyncio.Transport, protocol: asyncio.BaseProtocol, context: ssl.SSLContext, hostname: str | None
) -> asyncio.Transport:
    # asyncio's TLS on every loop: uvloop's accepts only its own transports.
    secured = await asyncio.BaseEventLoop.start_tls(
        asyncio.get_running_loop(),  # type: ignore[arg-type]  # it uses only what every loop has
        opened,
        protocol,
        context,
        server_hostname=hostname,
    )
    if secured is None:
        raise ConnectionResetError("the connection was lost during the TLS handshake")
    return secured
