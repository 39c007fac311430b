"""A transport whose writes stop with the leadership.

::

    fence = Fence()
    async with Transport(credentials, user_agent="example") as transport:
        fenced = FencedTransport(transport, fence)
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Final

from attrs import frozen

from gpuruntime.control.leadership.fence import Fence
from gpuruntime.kube.answers import Answer
from gpuruntime.kube.transport import Params, Transport

__all__ = ["FencedTransport"]

_JSON: Final = "application/json"
_READS: Final = frozenset({"GET", "HEAD"})


@frozen
class FencedTransport:
    """Reads pass; writes, which is everything but GET and HEAD, pass while the fence is open.

    Guarantees:
        No byte of a write is sent once the fence is shut or its deadline has passed, whatever the write waited for: its
        turn, a retry, a fresh token, a connection, a loop that stood still, a process that was stopped. The clock is
        read in the same step in which bytes are handed to the kernel. A write under way is given up at the deadline
        that held when it began, and at once when the fence is shut; its retries are over by then, too.

    Caveats:
        See `GuardedSocket` for the microsecond that remains.
    """

    _transport: Transport
    _fence: Fence

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params = (),
        body: bytes | None = None,
        content_type: str = _JSON,
        accept: str = _JSON,
        timeout: float = 30.0,  # noqa: ASYNC109 - the transport's own name for it
    ) -> Answer:
        """See `Transport.request`.

        Raises:
            NotLeaderError: a write, and this process does not lead, or ceased to while the write was under way.
            KubeError: no answer, or one that is an error.
        """
        if method in _READS:
            return await self._transport.request(
                method, path, params=params, body=body, content_type=content_type, accept=accept, timeout=timeout
            )
        what = f"{method} {path}"
        async with self._fence.passing(what) as remaining:
            return await self._transport.request(
                method,
                path,
                params=params,
                body=body,
                content_type=content_type,
                accept=accept,
                timeout=min(timeout, remaining),
                guard=self._fence.guard(what),
            )

    def stream(
        self,
        path: str,
        *,
        params: Params = (),
        accept: str = _JSON,
        idle_timeout: float,
        connect_timeout: float = 30.0,
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """See `Transport.stream`."""
        return self._transport.stream(
            path, params=params, accept=accept, idle_timeout=idle_timeout, connect_timeout=connect_timeout
        )
