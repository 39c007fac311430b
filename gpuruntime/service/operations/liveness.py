"""Liveness of the API server, and a circuit breaker for requests that a caller waits for.

A server under load is slow, but it still answers some requests of this process. A server that is down answers none. So
the criterion is the time since any answer, not the duration of one request.
"""

import asyncio
import math
from typing import Any, Final

from attrs import frozen

from gpuruntime.kube import Middleware, Request, Response, Transport, UnavailableError

__all__ = ["DEFAULT_PATIENCE_SECONDS", "CircuitBreaker", "Liveness"]

DEFAULT_PATIENCE_SECONDS: Final = 3.0
"""How long the API server answers no request before a caller gets an error."""
_SAMPLES: Final = 6
_NO_ANSWER: Final = "<error>"
_THROTTLED: Final = "429"


@frozen
class Liveness:
    """Waits for work that depends on the API server, for as long as the server is alive.

    The server counts as down after `patience` seconds without any answer. A 429 or a 5xx is no answer.
    """

    transport: Transport
    patience: float = DEFAULT_PATIENCE_SECONDS

    async def wait(self, work: "asyncio.Future[Any]", within: float = math.inf, *, is_read: bool = False) -> bool:
        """Wait until the work is done; false after `within` seconds. The work itself is never cancelled.

        Raises:
            UnavailableError: the server is down; work that is more than a read may still have been executed.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within
        counted, silent = self._answers(), 0
        while not work.done():
            left = deadline - loop.time()
            if left <= 0:
                return False
            await asyncio.wait([work], timeout=min(left, self.patience / _SAMPLES))
            # Counts samples instead of seconds: an event loop that was blocked has read no answers, either.
            answers = self._answers()
            counted, silent = answers, silent + 1 if answers == counted else 0
            if silent >= _SAMPLES and not work.done():
                message = f"the API server has answered no request for {self.patience:g} s"
                raise UnavailableError(message, outcome_unknown=not is_read)
        return True

    def _answers(self) -> int:
        counts = self.transport.counts.items()
        return sum(count for (code, _), count in counts if code not in {_NO_ANSWER, _THROTTLED} and code < "500")


class CircuitBreaker(Middleware):
    """A transport for requests that a caller waits for: they are cancelled when the API server is down."""

    def __init__(self, liveness: Liveness) -> None:
        super().__init__(liveness.transport)
        self._liveness = liveness

    async def send(self, request: Request) -> Response:
        """See `Transport.send`."""
        sending = asyncio.ensure_future(self.inner.send(request))
        try:
            await self._liveness.wait(sending, is_read=request.is_read)
        finally:
            if not sending.done():
                sending.cancel()
                await asyncio.wait([sending])
        return sending.result()
