"""RESULTS on a real server, and an archive at work beside it."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Final

from attrs import frozen

from gpuruntime.api.invocations import (
    ARCHIVE_CONSUMER,
    RESULTS_STREAM,
    InvocationKey,
    ResultRecord,
    metadata_headers,
    result_subject,
)
from gpuruntime.archive.consumer import ResultConsumer
from gpuruntime.archive.figures import ArchiveFigures
from gpuruntime.archive.lag import ArchiveLag
from gpuruntime.archive.store import ResultStore
from gpuruntime.bus import Bus, ConsumerConfig, OutgoingMessage, StreamConfig
from gpuruntime.testing.nats import NatsServer
from tests.bus.connected import connected

__all__ = ["Results", "archiving", "results_stream"]

_RETRY_SECONDS: Final = 0.05
_BATCH: Final = 500


@frozen
class Results:
    """The stream RESULTS, written by its administrator."""

    bus: Bus

    async def make(self, ack_wait: float = 2.0) -> None:
        """Make what the leading activator makes, but with deliveries again after two seconds."""
        await self.bus.jetstream.ensure_stream(
            StreamConfig(
                name=RESULTS_STREAM,
                subjects=("res.*.*.*", "res.other"),
                max_messages_per_subject=1,
                discard="new",
                discard_new_per_subject=True,
                allow_message_ttl=True,
                allow_atomic=True,
            )
        )
        await self.bus.jetstream.ensure_consumer(
            RESULTS_STREAM, ConsumerConfig(name=ARCHIVE_CONSUMER, ack_wait=ack_wait)
        )

    async def end(self, keys: Iterable[InvocationKey], body: bytes = b"done") -> None:
        """Store results in atomic batches: thousands of them in a second."""
        headers = metadata_headers(ResultRecord("succeeded", result_ttl_millis=3_600_000))
        messages = [OutgoingMessage(result_subject(key), body, headers) for key in keys]
        for start in range(0, len(messages), _BATCH):
            await self.bus.jetstream.publish_batch(messages[start : start + _BATCH])

    async def unarchived(self) -> int:
        """The messages that are not acknowledged."""
        info = await self.bus.jetstream.consumer_info(RESULTS_STREAM, ARCHIVE_CONSUMER)
        assert info is not None
        return info.num_pending + info.num_ack_pending

    async def archived(self) -> None:
        """Returns when all are acknowledged; the timeout of the test is the limit."""
        while await self.unarchived():  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0.02)


@asynccontextmanager
async def results_stream(server: NatsServer) -> AsyncIterator[Results]:
    """RESULTS with its consumer, on a server."""
    async with connected(server.options()) as bus:
        results = Results(bus)
        await results.make()
        yield results


@asynccontextmanager
async def archiving(server: NatsServer, store: ResultStore) -> AsyncIterator[ArchiveFigures]:
    """An archive at work, with the permissions of the result store."""
    figures = ArchiveFigures(ArchiveLag(0.0))
    async with connected(server.options("result-store")) as bus:
        task = asyncio.create_task(ResultConsumer(bus, store, figures, _RETRY_SECONDS).run())
        try:
            yield figures
        finally:
            task.cancel()
            await asyncio.wait([task])
