"""What everything above the transport needs of it, so that others can stand in between: a fence, a journal."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from gpuruntime.kube.answers import Answer
from gpuruntime.kube.transport import Params

__all__ = ["Wire"]


class Wire(Protocol):
    """Requests and streams to one API server; `Transport` is the one that sends them."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params = (),
        body: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        timeout: float = 30.0,  # noqa: ASYNC109 - it spans retries and the waits between them
    ) -> Answer:
        """See `Transport.request`."""

    def stream(
        self,
        path: str,
        *,
        params: Params = (),
        accept: str = "application/json",
        idle_timeout: float,
        connect_timeout: float = 30.0,
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """See `Transport.stream`."""
