"""How long callers wait for an API server that says nothing.

A server under load answers late, but it answers somebody; one that is away answers nobody. So it is not the time of one
request that counts, but how long ago anything at all was answered.
"""

import asyncio
import math
from typing import Any, Final

from attrs import frozen

from gpuruntime.kube import Middleware, Request, Response, Transport, UnavailableError

__all__ = ["CircuitBreaker", "Liveness"]

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


class CircuitBreaker(Middleware):
    """The same transport for requests that a caller waits for: given up when the server gives no sign of life."""

    def __init__(self, signs: Liveness) -> None:
        super().__init__(signs.transport)
        self._signs = signs

    async def send(self, request: Request) -> Response:
        """See `Transport.send`."""
        sending = asyncio.ensure_future(self.inner.send(request))
        try:
            await self._signs.wait(sending, is_read=request.is_read)
        finally:
            if not sending.done():
                sending.cancel()
                await asyncio.wait([sending])
        return sending.result()
