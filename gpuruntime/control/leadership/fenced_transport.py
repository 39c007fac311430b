"""A transport whose writes stop with the leadership.

::

    fence = Fence()
    async with Transport(FencedCredentials(credentials), user_agent="example") as transport:
        fenced = FencedTransport(transport, fence)
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from typing import Final

from attrs import frozen

from gpuruntime.control.leadership.fence import Fence
from gpuruntime.kube.answers import Answer
from gpuruntime.kube.credentials import Authorization, Credentials, Endpoint
from gpuruntime.kube.transport import Params, Transport

__all__ = ["FencedCredentials", "FencedTransport"]

_JSON: Final = "application/json"
_READS: Final = frozenset({"GET", "HEAD"})


@frozen
class _Write:
    fence: Fence
    what: str


_WRITE: ContextVar[_Write | None] = ContextVar("gpuruntime_fenced_write", default=None)


@frozen
class FencedCredentials:
    """The same credentials, asked at the last moment before a request leaves whether its fence is still open.

    A fenced write may wait in the transport: for its turn, for a retry, for a fresh token. When the machine is
    suspended meanwhile, or the loop stalls, the write is ready to go before any timer can stop it; so whoever is asked
    last looks at the clock again. Requests that did not come through a `FencedTransport` pass.
    """

    _credentials: Credentials

    @property
    def endpoint(self) -> Endpoint:
        return self._credentials.endpoint

    async def authorize(self) -> Authorization:
        authorization = await self._credentials.authorize()
        write = _WRITE.get()
        if write is not None:
            write.fence.check(write.what)
        return authorization

    async def refused(self, used: Authorization) -> bool:
        return await self._credentials.refused(used)


@frozen
class FencedTransport:
    """Reads pass; writes, which is everything but GET and HEAD, pass while the fence is open.

    Guarantees:
        No write begins once the fence is shut or its deadline has passed. A write under way is given up at the deadline
        that held when it began, and at once when the fence is shut; its retries are over by then, too.

    Caveats:
        With plain credentials a write that waits inside the transport while the machine is suspended, or the loop
        stalls, can leave late: give the transport `FencedCredentials`. What remains is the time to open a connection.
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
            token = _WRITE.set(_Write(self._fence, what))
            try:
                return await self._transport.request(
                    method,
                    path,
                    params=params,
                    body=body,
                    content_type=content_type,
                    accept=accept,
                    timeout=min(timeout, remaining),
                )
            finally:
                _WRITE.reset(token)

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
