"""What happens to the archive at intervals: expired results are deleted, and the figures of its metrics are asked for.

A process whose clock is wrong deletes bodies early or late. Neither loses an answer: callers read RESULTS first, where
the clock of NATS decides, and after that time the body has expired anyway. A clock that is ahead by more than the time
for which rows are kept deletes them early: lists miss these invocations then.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from gpuruntime.api.invocations import ARCHIVE_CONSUMER, RESULTS_STREAM
from gpuruntime.archive.figures import ArchiveFigures
from gpuruntime.archive.store import ResultStore, StoreError
from gpuruntime.bus import Bus, BusError

__all__ = ["Expiry", "LagWatch"]

_LOG: Final = logging.getLogger(__name__)
_EXPIRY_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 10.0


class Expiry:
    """Deletes bodies that have expired, and rows some days later."""

    def __init__(
        self, store: ResultStore, figures: ArchiveFigures, keep_rows: timedelta, now: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._figures = figures
        self._keep_rows = keep_rows
        self._now = now
        self._problem = ""

    async def run(self) -> None:
        """Delete until cancelled. Each round is short, so that results are written between two of them."""
        while True:
            try:
                more = await self._round()
                self._problem = ""
            except StoreError as error:
                more = False
                if self._problem != str(error):
                    self._problem = str(error)
                    _LOG.error("expired results cannot be deleted", extra={"error": self._problem})
            await asyncio.sleep(0 if more else _EXPIRY_SECONDS)

    async def _round(self) -> bool:
        done = await self._store.expire(self._now(), self._keep_rows)
        self._figures.expired_bodies += done.bodies
        self._figures.expired_rows += done.rows
        if not done.more:
            self._figures.size = await self._store.size()
        return done.more


class LagWatch:
    """Asks NATS every ten seconds how full it is, and how far the archive is. Without an answer the lag grows."""

    def __init__(self, bus: Bus, figures: ArchiveFigures) -> None:
        self._jetstream = bus.jetstream
        self._figures = figures

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            try:
                await self._look()
            except BusError as error:
                _LOG.debug("lag of the archive is not known", extra={"error": str(error)})
            await asyncio.sleep(_LOOK_SECONDS)

    async def _look(self) -> None:
        self._figures.account = await self._jetstream.account_info()
        stream = await self._jetstream.stream_info(RESULTS_STREAM)
        consumer = await self._jetstream.consumer_info(RESULTS_STREAM, ARCHIVE_CONSUMER)
        if stream is None or consumer is None:
            return
        pending = consumer.num_pending + consumer.num_ack_pending
        self._figures.pending = pending
        now = asyncio.get_running_loop().time()
        self._figures.lag.look(now, stream.last_sequence, consumer.ack_floor, is_empty=pending == 0)
