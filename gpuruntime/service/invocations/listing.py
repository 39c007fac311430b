"""Lists of invocations: those that ended come from the archive, those that wait or run from the queue of a function.

The queue is read message by message, payloads included, so a page of it costs as many reads of NATS as it has items.
"""

from contextlib import suppress
from typing import Final

from attrs import frozen

from gpuruntime.api.gpufunction import GPUFunction
from gpuruntime.api.invocations import (
    WORKERS_CONSUMER,
    InvocationState,
    MessageError,
    function_stream,
    key_of_subject,
)
from gpuruntime.bus import Bus, StreamMissingError
from gpuruntime.meta import ObjectKey
from gpuruntime.service.invocations.lookup import InvocationLookup, stored_request
from gpuruntime.service.invocations.status import OpenInvocation, opened

__all__ = ["MOST_READ", "OpenPage", "QueueListing"]

MOST_READ: Final = 500
"""Messages that one page reads at most. A page may be short, and have a next one."""


@frozen
class OpenPage:
    """A page, the oldest first. `next` is the sequence with which the next page begins; None on the last."""

    items: tuple[OpenInvocation, ...]
    next: int | None = None


@frozen
class QueueListing:
    """Lists what is in the queues of functions."""

    bus: Bus
    lookup: InvocationLookup

    async def page(
        self, key: ObjectKey, function: GPUFunction | None, state: InvocationState, limit: int, start: int = 1
    ) -> OpenPage:
        """A page of invocations that are queued, or that run.

        Raises:
            BusError: NATS does not answer, or has no queue for the function.
        """
        stream = function_stream(key)
        queue = await self.bus.jetstream.consumer_info(stream, WORKERS_CONSUMER)
        if queue is None:
            raise StreamMissingError(f"stream {stream}: there is none yet")
        found: list[OpenInvocation] = []
        sequence = start
        for _ in range(MOST_READ):
            # What runs was delivered.
            if state is InvocationState.RUNNING and sequence > queue.delivered_sequence:
                return OpenPage(tuple(found))
            message = await self.bus.jetstream.next_message(stream, f"inv.{key.namespace}.{key.name}.*", sequence)
            if message is None:
                return OpenPage(tuple(found))
            if len(found) == limit:
                break
            sequence = message.sequence + 1
            with suppress(MessageError, ValueError):
                request = stored_request(key_of_subject(message.subject), message)
                was_delivered = request.sequence <= queue.delivered_sequence
                run = await self.lookup.run(request.key) if was_delivered else None
                status = opened(request, run, queue, function)
                if status.state is state:
                    found.append(status)
        return OpenPage(tuple(found), sequence)
