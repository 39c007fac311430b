"""Middleware between a client and a transport, and the protocol that both sides share."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from gpuruntime.kube.transport.request import Request
from gpuruntime.kube.transport.response import Response

__all__ = ["Middleware", "Wire"]


class Wire(Protocol):
    """Sends requests to one API server: a `Transport`, or middleware around one."""

    async def send(self, request: Request) -> Response:
        """See `Transport.send`."""

    def stream(self, request: Request, *, idle_timeout: float) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """See `Transport.stream`."""


class Middleware:
    """Passes every request and stream on to `inner`. A subclass overrides what it adds to, most often `send`.

    ::

        class Logged(Middleware):
            async def send(self, request: Request) -> Response:
                log.info("request", extra={"request": str(request)})
                return await self.inner.send(request)


        client = Client(Logged(transport), field_manager="example")
    """

    def __init__(self, inner: Wire) -> None:
        self.inner = inner

    async def send(self, request: Request) -> Response:
        """Send the request and return the response, of status 2xx."""
        return await self.inner.send(request)

    def stream(self, request: Request, *, idle_timeout: float) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a stream."""
        return self.inner.stream(request, idle_timeout=idle_timeout)
