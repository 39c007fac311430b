"""What NATS has of an invocation: the stored request, the run, and the result."""

from contextlib import suppress
from datetime import datetime

from attrs import field, frozen

from gpuruntime.api.invocations import (
    RUNS_STREAM,
    InvocationKey,
    MessageError,
    QueuedInvocation,
    RunRecord,
    function_stream,
    queue_subject,
    read_queued,
    read_run,
    run_subject,
)
from gpuruntime.bus import Bus, StoredMessage, StreamMissingError
from gpuruntime.service.invocations.results import EndedInvocation, ResultLog

__all__ = ["InvocationLookup", "InvocationRun", "StoredRequest", "stored_request"]


@frozen
class StoredRequest:
    """A request in the queue of its function; also while it runs. `time` is when NATS stored it."""

    key: InvocationKey
    record: QueuedInvocation
    sequence: int
    time: datetime
    body: bytes = field(repr=False)


@frozen
class InvocationRun:
    """The last run of an invocation. `time` is when an activator last said so."""

    record: RunRecord
    time: datetime


@frozen
class InvocationLookup:
    """Reads from the leaders of the streams, except for runs."""

    bus: Bus
    results: ResultLog

    async def request(self, key: InvocationKey) -> StoredRequest | None:
        """The request of an invocation that has not ended; None if the queue has none, or there is no queue.

        Raises:
            BusUnavailableError: NATS does not answer.
            MessageError: the message cannot be read.
        """
        try:
            found = await self.bus.jetstream.last_message(function_stream(key.function_key), queue_subject(key))
        except StreamMissingError:
            return None
        return None if found is None else stored_request(key, found)

    async def run(self, key: InvocationKey) -> InvocationRun | None:
        """The last run of an invocation, perhaps an old one; None if there is none.

        Raises:
            BusUnavailableError: NATS does not answer.
        """
        with suppress(StreamMissingError, MessageError):
            found = await self.bus.jetstream.last_message_direct(RUNS_STREAM, run_subject(key))
            if found is not None:
                return InvocationRun(read_run(found.headers), found.time)
        return None

    async def accepted(self, key: InvocationKey) -> StoredRequest | EndedInvocation | None:
        """An invocation that was accepted; None if none was, or if its result has expired.

        The queue is read first: a request leaves the queue after its result is stored, so that one of the two is seen.

        Raises:
            BusUnavailableError: NATS does not answer.
            StreamMissingError: there is no stream of results.
            MessageError: a message cannot be read.
        """
        return await self.request(key) or await self.results.get(key)


def stored_request(key: InvocationKey, message: StoredMessage) -> StoredRequest:
    """The request of a message of the queue.

    Raises:
        MessageError: the message cannot be read.
    """
    return StoredRequest(key, read_queued(message.headers), message.sequence, message.time, message.body)
