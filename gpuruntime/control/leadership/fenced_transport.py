"""Middleware that sends writes only while this process leads.

::

    fence = Fence()
    async with Transport(credentials, user_agent="example") as transport:
        fenced = FencedTransport(transport, fence)
"""

from gpuruntime.control.leadership.fence import Fence
from gpuruntime.kube.transport.middleware import Middleware, Wire
from gpuruntime.kube.transport.request import Request
from gpuruntime.kube.transport.response import Response

__all__ = ["FencedTransport"]


class FencedTransport(Middleware):
    """Reads pass; writes, which is everything but GET and HEAD, pass while the fence is open.

    Guarantees:
        No byte of a write is sent after the fence is shut or its deadline has passed, whatever the write waited for: a
        slot, a retry, a fresh token, a connection, a blocked loop, a stopped process. The clock is read in the same
        step in which bytes are handed to the kernel. A write in flight is cancelled, with its retries, at the deadline
        that held when it began, and at once when the fence is shut.

    Caveats:
        See `GuardedSocket` for the microsecond that remains.
    """

    def __init__(self, inner: Wire, fence: Fence) -> None:
        super().__init__(inner)
        self._fence = fence

    async def send(self, request: Request) -> Response:
        """See `Transport.send`.

        Raises:
            NotLeaderError: a write, and this process does not lead, or lost the lease while the write was in flight.
            KubeError: no response, or an error response.
        """
        if request.is_read:
            return await self.inner.send(request)
        what = str(request)
        async with self._fence.passing(what) as remaining:
            return await self.inner.send(request.guarded(self._fence.guard(what), remaining))
