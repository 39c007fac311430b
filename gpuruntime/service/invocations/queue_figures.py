"""The queue of a function now, in figures: read from the leaders of its stream and its consumer, never from a cache."""

from attrs import frozen

from gpuruntime.api.gpufunction import GPUFunction
from gpuruntime.api.invocations import WORKERS_CONSUMER, function_stream
from gpuruntime.bus import Bus, ConsumerInfo, StreamInfo
from gpuruntime.service.errors import QueueUnavailableError
from gpuruntime.service.invocations.queue_errors import queue_errors

__all__ = ["QueueFigures", "QueueReads"]


@frozen
class QueueFigures:
    """How much is in the queue of a function.

    Args:
        queued: invocations that no worker has got yet.
        running: invocations that were delivered and have not ended. One that waits for another attempt is among them:
            the consumer does not distinguish the two.
        bytes: of both.
        oldest_age_seconds: how long the first queued one has waited; None if nothing is queued.
    """

    queued: int
    running: int
    bytes: int
    oldest_age_seconds: float | None


@frozen
class QueueReads:
    """Reads queues; without a bus there are none."""

    bus: Bus | None

    async def figures(self, function: GPUFunction) -> QueueFigures:
        """The figures of a function's queue. They are of two or three questions, so they may differ by what happens in
        between.

        Raises:
            QueueUnavailableError: NATS is not configured or does not answer, or the function has no queue yet.
        """
        if self.bus is None:
            raise QueueUnavailableError("NATS is not configured: set serverless.nats.urls of the process")
        name = function_stream(function.key)
        with queue_errors(f"the figures of function {function.key}"):
            consumer = await self.bus.jetstream.consumer_info(name, WORKERS_CONSUMER)
            stream = await self.bus.jetstream.stream_info(name)
            if stream is None or consumer is None:
                raise QueueUnavailableError(
                    f"function {function.key} has no queue yet: an activator makes it; try again, and look at the log"
                    " of the activator if it stays so"
                )
            age = await _oldest_age(self.bus, stream, consumer)
        return QueueFigures(
            queued=consumer.num_pending,
            running=consumer.num_ack_pending,
            bytes=stream.bytes,
            oldest_age_seconds=age,
        )


async def _oldest_age(bus: Bus, stream: StreamInfo, consumer: ConsumerInfo) -> float | None:
    """By the clock of the server, which also stamped the message."""
    if not consumer.num_pending:
        return None
    if not consumer.num_ack_pending:
        since = stream.first_time
    else:
        (subjects,) = stream.config["subjects"]
        first = await bus.jetstream.next_message(stream.name, subjects, consumer.delivered_sequence + 1)
        since = None if first is None else first.time
    # Delivered or ended since the first question.
    return None if since is None else max(0.0, (stream.server_time - since).total_seconds())
