"""Telling that nothing happens any more."""

import asyncio
from contextlib import suppress

from gpuruntime.testing.crashing.change_recorder import ChangeRecorder
from gpuruntime.testing.crashing.operator_supervisor import Supervisor
from gpuruntime.testing.faults.proxy import FaultProxy

__all__ = ["Quietness"]


class Quietness:
    """Quiet is a run whose operator lives and has talked to the server, and in which nothing was written for a while,
    by anybody, and no watch was opened. Reads do not count: some operators look at something now and then.
    """

    def __init__(
        self, proxy: FaultProxy, witness: ChangeRecorder, supervisor: Supervisor, aside: tuple[str, ...]
    ) -> None:
        self._proxy = proxy
        self._witness = witness
        self._supervisor = supervisor
        self._aside = aside
        self._begun = float("-inf")

    def begin_anew(self) -> None:
        """Quiet so far counts for nothing: something has been done that the operator will notice."""
        self._begun = asyncio.get_running_loop().time()

    async def lasts(self, seconds: float) -> float:
        """Returns when it has been quiet for so long; gives since when."""
        while True:
            since, now = self._since(), asyncio.get_running_loop().time()
            if since is not None and now - since >= seconds:
                return since
            with suppress(TimeoutError):
                async with asyncio.timeout_at(None if since is None else since + seconds):
                    await self._proxy.changes.change()

    async def ends(self, since: float) -> None:
        """Returns when something has happened after that time."""
        await self._proxy.changes.until(lambda: self._since() != since)

    def _since(self) -> float | None:
        started = self._supervisor.started
        if started is None:
            return None
        exchanges = self._proxy.log.exchanges
        if not any(exchange.at >= started and exchange.status is not None for exchange in exchanges):
            return None
        busy = [
            exchange.at
            for exchange in exchanges
            if (exchange.write or exchange.call.method == "WATCH") and exchange.call.resource not in self._aside
        ]
        return max(started, self._begun, self._witness.last_event, *busy)
