"""The deletion of a function's queue: what it holds ends as cancelled, and then the stream goes.

=============================  ========================================================================================
1  close the queue             the stream takes no more requests: the API answers that there is no such function
2  end what it holds           cancelled, function_deleted; a worker that runs it is asked to stop
3  delete the stream           when nothing is left in it
this process dies              the next leader goes on: what has ended is deleted from the stream one by one
NATS is away                   the function stays, and is tried again; the finalizer `function-queue` says why
=============================  ========================================================================================
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

from attrs import evolve, frozen

from gpuruntime.api.gpufunction import GPUFunction
from gpuruntime.api.invocations import (
    FailureClass,
    InvocationState,
    MessageError,
    QueuedInvocation,
    cancel_subject,
    function_stream,
    key_of_subject,
    read_queued,
)
from gpuruntime.bus import Bus, BusUnavailableError, StoredMessage
from gpuruntime.dispatch.activator.runs.commits import Commits
from gpuruntime.dispatch.activator.runs.endings import end_unstarted
from gpuruntime.dispatch.activator.runs.limits import RunLimits, limits_of
from gpuruntime.dispatch.activator.server_clock import ServerClock
from gpuruntime.service.invocations.streams import queue_config

__all__ = ["QueueDeletion"]

_LOG: Final = logging.getLogger(__name__)
_AT_A_TIME: Final = 64


@frozen
class QueueDeletion:
    """Deletes queues."""

    bus: Bus
    commits: Commits
    clock: ServerClock

    async def delete(self, function: GPUFunction) -> None:
        """End everything in the queue of a function, and delete it. It can be repeated.

        Raises:
            BusError: NATS does not answer, or refuses.
        """
        jetstream, name = self.bus.jetstream, function_stream(function.key)
        found = await jetstream.stream_info(name)
        if found is None:
            return
        self.clock.observe(found.server_time)
        closed = evolve(
            queue_config(function, found.config.get("num_replicas", 1)),
            subjects=(f"closed.{function.key.namespace}.{function.key.name}",),
        )
        await jetstream.ensure_stream(closed)
        limits, ended = limits_of(function), 0
        while True:
            async for batch in self._batches(name):
                await asyncio.gather(*(self._end(name, message, limits) for message in batch))
                ended += len(batch)
            left = await jetstream.stream_info(name)
            if left is None or left.messages == 0:
                break
        await jetstream.delete_stream(name)
        _LOG.info("queue of a deleted function is deleted", extra={"function": str(function.key), "cancelled": ended})

    async def _batches(self, stream: str) -> AsyncIterator[list[StoredMessage]]:
        sequence, batch = 1, list[StoredMessage]()
        while True:
            message = await self.bus.jetstream.next_message(stream, ">", sequence)
            if message is not None:
                batch.append(message)
                sequence = message.sequence + 1
            if batch and (message is None or len(batch) == _AT_A_TIME):
                yield batch
                batch = []
            if message is None:
                return

    async def _end(self, stream: str, message: StoredMessage, limits: RunLimits) -> None:
        with suppress(ValueError):  # a subject of another program: it goes with the stream
            key = key_of_subject(message.subject)
            queued = _read(message)
            end = end_unstarted(
                InvocationState.CANCELLED,
                FailureClass.FUNCTION_DELETED,
                f"function {key.function} was deleted",
                accepted=message.time,
                now=self.clock.now(),
                result_ttl_millis=limits.result_ttl_millis,
                queued=queued,
            )
            await self.commits.end(key, end, reply="" if queued is None else queued.reply)
            with suppress(BusUnavailableError):
                self.bus.send(cancel_subject(key))
        await self.bus.jetstream.delete_message(stream, message.sequence)


def _read(message: StoredMessage) -> QueuedInvocation | None:
    try:
        return read_queued(message.headers)
    except MessageError:
        return None
