"""Writes the messages of RESULTS to the store.

Who dies, or is away, and what happens then:

============================  =========================================================================================
this process, before a        the messages are delivered again after the consumer's `ack_wait`
commit
this process, after a commit  they are delivered again, and writing them again changes nothing
the store: full, locked,      the batch is given back, and comes again after two seconds. Nothing is acknowledged;
damaged                       RESULTS keeps what has not expired
NATS                          the pull asks anew after the next connect
the stream or the consumer    asked for again every two seconds: an activator makes both
a message cannot be read      logged, counted and acknowledged: another program wrote it, and it would come for ever
============================  =========================================================================================
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from gpuruntime.api.invocations import ARCHIVE_CONSUMER, RESULTS_STREAM, MessageError
from gpuruntime.archive.figures import ArchiveFigures
from gpuruntime.archive.results import StoredResult, result_of_message
from gpuruntime.archive.store import ResultStore, StoreError
from gpuruntime.bus import Bus, BusError, BusUnavailableError, Delivery, Pull

__all__ = ["LARGEST_BATCH", "ResultConsumer"]

_LOG: Final = logging.getLogger(__name__)
LARGEST_BATCH: Final = 64
"""Messages that this process holds at a time. It bounds its memory: 64 messages of 8 MB are 512 MB."""
_RETRY_SECONDS: Final = 2.0


class ResultConsumer:
    """Archives all results, at least once each.

    Guarantees:
        A message is acknowledged only after its result is on the disk of the store.
    """

    def __init__(
        self, bus: Bus, store: ResultStore, figures: ArchiveFigures, retry_seconds: float = _RETRY_SECONDS
    ) -> None:
        self._bus = bus
        self._store = store
        self._figures = figures
        self._retry_seconds = retry_seconds

    async def run(self) -> None:
        """Archive until cancelled. Neither NATS nor the store ends it."""
        while True:
            await self._bus.wait_connected()
            try:
                async with self._bus.jetstream.pull(RESULTS_STREAM, ARCHIVE_CONSUMER) as pull:
                    await self._drain(pull)
            except BusError as error:
                # There is no consumer yet, or no longer, or this user may not pull from it.
                if self._figures.fail(str(error)):
                    _LOG.warning("results cannot be read from NATS", extra={"error": str(error)})
                await asyncio.sleep(self._retry_seconds)

    async def _drain(self, pull: Pull) -> None:
        pull.add_credit(LARGEST_BATCH)
        while True:
            batch = await _next_batch(pull)
            try:
                await self._archive(batch)
            finally:
                pull.add_credit(len(batch))

    async def _archive(self, batch: Sequence[Delivery]) -> None:
        results = [result for delivery in batch if (result := self._read(delivery)) is not None]
        try:
            await self._store.put(results)
        except StoreError as error:
            if self._figures.fail(str(error)):
                _LOG.error("results cannot be archived", extra={"error": str(error)})
            with suppress(BusUnavailableError):
                for delivery in batch:
                    await self._bus.nak(delivery.ack_subject, self._retry_seconds)
            await asyncio.sleep(self._retry_seconds)
            return
        self._figures.succeed(len(results), len(batch) - len(results))
        # An acknowledgement that is lost costs another delivery.
        with suppress(BusUnavailableError):
            for delivery in batch:
                await self._bus.ack(delivery.ack_subject)

    def _read(self, delivery: Delivery) -> StoredResult | None:
        try:
            return result_of_message(delivery.subject, delivery.headers, delivery.body, delivery.time)
        except MessageError as error:
            extra = {"subject": delivery.subject, "sequence": delivery.stream_sequence, "error": str(error)}
            _LOG.error("result message cannot be read, and is not archived", extra=extra)
            return None


async def _next_batch(pull: Pull) -> Sequence[Delivery]:
    """At least one delivery, and all others that are here already: batches grow with the load, and none waits."""
    batch = [await anext(pull)]
    with suppress(TimeoutError):
        while len(batch) < LARGEST_BATCH:
            async with asyncio.timeout(0):
                batch.append(await anext(pull))
    return batch
