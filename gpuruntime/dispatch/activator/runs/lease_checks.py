"""Runs whose invocation has ended otherwise: a cancellation that was not heard is found here."""

import asyncio
import logging
from typing import Final

from attrs import frozen

from gpuruntime.api.invocations import MessageError
from gpuruntime.bus import BusError
from gpuruntime.dispatch.activator.leases.held import HeldRuns
from gpuruntime.dispatch.activator.settings import DispatchSettings
from gpuruntime.dispatch.protocol import Cancel
from gpuruntime.service.invocations.results import ResultLog

__all__ = ["LeaseChecks"]

_LOG: Final = logging.getLogger(__name__)


@frozen
class LeaseChecks:
    """Looks for results of everything that runs here."""

    held: HeldRuns
    results: ResultLog
    settings: DispatchSettings

    async def run(self) -> None:
        """Look until cancelled; short runs are never looked at."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self.settings.check)
            due = loop.time() - self.settings.check
            try:
                for run in self.held:
                    if run.checked > due or run.has_result or run.has_ended:
                        continue
                    began = loop.time()
                    if await self.results.get(run.lease.key) is None:
                        run.checked = began
                    else:
                        run.has_ended = True
                        run.worker.send(Cancel(run.lease.token, run.lease.key.id, "the invocation has ended"))
            except (BusError, MessageError) as error:
                _LOG.debug("leases cannot be checked now", extra={"error": str(error)})
