"""How long callers wait for an API server that says nothing.

A server under load answers late, but it answers somebody; one that is away answers nobody. So it is not the time of one
request that counts, but how long ago anything at all was answered.
"""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from attrs import frozen

from gpuruntime.kube import Answer, Transport, UnavailableError
from gpuruntime.kube.transport import Params

__all__ = ["CircuitBreaker", "Liveness"]

_JSON: Final = "application/json"
_LOOKS: Final = 6
_NO_ANSWER: Final = "<error>"
_NOT_NOW: Final = "429"


@frozen
class Liveness:
    """Waits for work that asks the server, for as long as the server answers.

    `patience` is for how many seconds it may be silent. Answers that say "not now", and those of 5xx, are no answers.
    """

    transport: Transport
    patience: float = 3.0

    async def wait(self, work: "asyncio.Future[Any]", within: float = math.inf, *, is_read: bool = False) -> bool:
        """Whether the work ends in time. It is left alone, also when the waiting ends before it does.

        Raises:
            UnavailableError: the server is silent; work that is more than a read may still be done.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within
        heard, silent = self._answers(), 0
        while not work.done():
            left = deadline - loop.time()
            if left <= 0:
                return False
            await asyncio.wait([work], timeout=min(left, self.patience / _LOOKS))
            # Looks are counted, and no seconds: a loop that stood still for a while has heard nothing, either.
            answers = self._answers()
            heard, silent = answers, silent + 1 if answers == heard else 0
            if silent >= _LOOKS and not work.done():
                message = f"the API server has answered nothing for {self.patience:g} s"
                raise UnavailableError(message, outcome_unknown=not is_read)
        return True

    def _answers(self) -> int:
        counts = self.transport.counts.items()
        return sum(count for (code, _), count in counts if code not in {_NO_ANSWER, _NOT_NOW} and code < "500")


@frozen
class CircuitBreaker:
    """The same transport for requests that a caller waits for: given up when the server gives no sign of life."""

    signs: Liveness

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
        """See `Transport.request`."""
        sent = self.signs.transport.request(
            method, path, params=params, body=body, content_type=content_type, accept=accept, timeout=timeout
        )
        sending = asyncio.ensure_future(sent)
        try:
            await self.signs.wait(sending, is_read=method == "GET")
        finally:
            if not sending.done():
                sending.cancel()
                await asyncio.wait([sending])
        return sending.result()

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
        return self.signs.transport.stream(
            path, params=params, accept=accept, idle_timeout=idle_timeout, connect_timeout=connect_timeout
        )
