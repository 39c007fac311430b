"""Idle detection: when an operator has nothing left to do."""

import asyncio
from contextlib import suppress

from gpuruntime.testing.crashing.change_recorder import ChangeRecorder
from gpuruntime.testing.crashing.operator_supervisor import OperatorSupervisor
from gpuruntime.testing.faults.proxy import FaultProxy

__all__ = ["IdleDetector"]


class IdleDetector:
    """Waits until a run is idle.

    A run is idle while its operator runs and has reached the server, and there is no write by any client and no new
    watch. Reads do not count, because some operators poll.
    """

    def __init__(
        self,
        proxy: FaultProxy,
        recorder: ChangeRecorder,
        supervisor: OperatorSupervisor,
        ignored_resources: tuple[str, ...],
    ) -> None:
        self._proxy = proxy
        self._recorder = recorder
        self._supervisor = supervisor
        self._ignored_resources = ignored_resources
        self._reset_at = float("-inf")

    def reset(self) -> None:
        """Start counting again: something happened that the operator is about to react to."""
        self._reset_at = asyncio.get_running_loop().time()

    async def wait_idle(self, seconds: float) -> float:
        """Wait until the run has been idle for this long; returns the loop time since when it is idle."""
        while True:
            since, now = self._idle_since(), asyncio.get_running_loop().time()
            if since is not None and now - since >= seconds:
                return since
            with suppress(TimeoutError):
                async with asyncio.timeout_at(None if since is None else since + seconds):
                    await self._proxy.changes.change()

    async def wait_active(self, since: float) -> None:
        """Wait until something has happened after the time that `wait_idle` returned."""
        await self._proxy.changes.until(lambda: self._idle_since() != since)

    def _idle_since(self) -> float | None:
        started = self._supervisor.started
        if started is None:
            return None
        exchanges = self._proxy.log.exchanges
        if not any(exchange.at >= started and exchange.status is not None for exchange in exchanges):
            return None
        activity = [
            exchange.at
            for exchange in exchanges
            if (exchange.write or exchange.call.method == "WATCH")
            and exchange.call.resource not in self._ignored_resources
        ]
        return max(started, self._reset_at, self._recorder.last_event, *activity)
