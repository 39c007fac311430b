"""Where an invocation is: its result, else its run, else its place in the queue."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from attrs import frozen

from gpuruntime.api.gpufunction import GPUFunction
from gpuruntime.api.invocations import (
    WORKERS_CONSUMER,
    Archive,
    ArchivedInvocation,
    ArchiveUnavailableError,
    InvocationKey,
    InvocationState,
    function_stream,
)
from gpuruntime.bus import Bus, ConsumerInfo
from gpuruntime.service.invocations.ending import InvocationEnding
from gpuruntime.service.invocations.figures import AcceptFigures
from gpuruntime.service.invocations.functions import waiting_for
from gpuruntime.service.invocations.lookup import InvocationLookup, InvocationRun, StoredRequest
from gpuruntime.service.invocations.pace import place_in_queue
from gpuruntime.service.invocations.results import EndedInvocation

__all__ = ["RUN_SECONDS", "InvocationStatuses", "OpenInvocation", "opened"]

RUN_SECONDS: Final = 30.0
"""How old the record of a run may be. Activators write it anew every ten seconds while it lasts."""

Found = EndedInvocation | ArchivedInvocation


@frozen
class OpenInvocation:
    """An invocation that has not ended. `now` is the time of NATS."""

    request: StoredRequest
    state: InvocationState
    run: InvocationRun | None
    place: int | None
    now: datetime
    waiting_for: str | None = None


def opened(
    request: StoredRequest, run: InvocationRun | None, queue: ConsumerInfo, function: GPUFunction | None
) -> OpenInvocation:
    """The state of an invocation that has not ended.

    What was never delivered is queued, whatever an old record of a run says: its ID was used before.
    """
    now = queue.server_time
    was_delivered = request.sequence <= queue.delivered_sequence
    is_recent = run is not None and now - run.time < timedelta(seconds=RUN_SECONDS)
    if was_delivered and is_recent and run is not None and run.time >= request.time:
        return OpenInvocation(request, InvocationState.RUNNING, run, None, now)
    place = place_in_queue(queue, request.sequence)
    return OpenInvocation(request, InvocationState.QUEUED, None, place, now, waiting_for(function))


def waited_too_long(request: StoredRequest, queue: ConsumerInfo, function: GPUFunction | None) -> bool:
    """Whether an invocation that no worker took has waited longer than its function allows, by the clock of NATS."""
    if function is None or request.sequence <= queue.delivered_sequence:
        return False
    millis = request.record.queue_ttl_millis or 1000 * function.spec.invocation.queue_ttl_seconds
    return queue.server_time - request.time > timedelta(milliseconds=millis)


@frozen
class InvocationStatuses:
    """Reads states. `function` is what the cache has of the function of an invocation."""

    bus: Bus
    lookup: InvocationLookup
    ending: InvocationEnding
    archive: Archive | None
    function: Callable[[InvocationKey], GPUFunction | None]
    figures: AcceptFigures

    async def get(self, key: InvocationKey) -> OpenInvocation | Found | None:
        """The state of an invocation; None if there is none, or if it ended so long ago that nothing knows it.

        An invocation that has waited too long is ended as expired.

        Raises:
            BusError: NATS does not answer, or has no stream of results.
            MessageError: a stored message cannot be read.
        """
        ended = await self.lookup.results.get(key)
        if ended is not None:
            return ended
        request = await self.lookup.request(key)
        if request is None:
            # It may have ended between the two reads.
            return await self.lookup.results.get(key) or await self._archived(key)
        return await self._open(request)

    async def wait(self, key: InvocationKey, within: float) -> OpenInvocation | Found | None:
        """`get`, once the invocation has ended or the time in seconds is over.

        Raises:
            BusError: NATS does not answer, or has no stream of results.
            MessageError: a stored message cannot be read.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within
        found = await self.get(key)
        if not isinstance(found, OpenInvocation):
            return found
        ended = await self.lookup.results.wait(key, deadline - loop.time())
        return ended or await self.get(key)

    async def _open(self, request: StoredRequest) -> OpenInvocation | EndedInvocation | None:
        key = request.key
        run = await self.lookup.run(key)
        queue = await self.bus.jetstream.consumer_info(function_stream(key.function_key), WORKERS_CONSUMER)
        if queue is None:
            # The consumer is made after its stream: nothing was delivered yet.
            return OpenInvocation(request, InvocationState.QUEUED, None, None, request.time)
        function = self.function(key)
        if waited_too_long(request, queue, function):
            committed = await self.ending.expire(request, function)
            self.figures.expired += committed.won
            return await self.lookup.results.get(key)
        return opened(request, run, queue, function)

    async def _archived(self, key: InvocationKey) -> ArchivedInvocation | None:
        """What the archive knows. While it is away, an invocation whose result has expired is as good as none."""
        try:
            return None if self.archive is None else await self.archive.get(key)
        except ArchiveUnavailableError:
            return None
