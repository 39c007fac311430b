"""Invocations that wait longer than they may: expired by the leading activator, by the clock of NATS.

A look at a queue asks how much waits, and reads its first message. The queue is looked at again when that message is
due, every few seconds while something waits, and every half minute otherwise; a new invocation of an empty queue is
heard by `wake`. Messages with a deadline of their own are found by reading each message once, in small steps.

=============================  ========================================================================================
this process dies              the next leader looks anew
a worker gets it meanwhile     its result is second, and is dropped
a delivered message that       expired too, when it is older than it may be and no worker had it at two looks, half a
waits for another worker       minute apart
NATS is away                   nothing expires; looked at again
=============================  ========================================================================================
"""

import asyncio
import heapq
import logging
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from attrs import define, field, frozen

from gpuruntime.api.gpufunction import GPUFunction
from gpuruntime.api.invocations import (
    METADATA_HEADER,
    WORKERS_CONSUMER,
    FailureClass,
    InvocationState,
    MessageError,
    QueuedInvocation,
    function_stream,
    key_of_subject,
    read_queued,
)
from gpuruntime.bus import Bus, BusError, ConsumerInfo, Message, StoredMessage
from gpuruntime.dispatch.activator.figures import DispatchFigures, QueueDepth
from gpuruntime.dispatch.activator.runs.commits import Commits, Request
from gpuruntime.dispatch.activator.runs.endings import end_unstarted
from gpuruntime.dispatch.activator.runs.limits import RunLimits, limits_of
from gpuruntime.dispatch.activator.runs.redelivery import Redeliveries
from gpuruntime.dispatch.activator.server_clock import ServerClock
from gpuruntime.dispatch.activator.sources import FunctionSource
from gpuruntime.meta import ObjectKey

__all__ = ["Expiry", "ExpirySettings"]

_LOG: Final = logging.getLogger(__name__)
_WAKE: Final = "wake."
_MOST_EXPIRED: Final = 64
_MOST_READ: Final = 200


@frozen(kw_only=True)
class ExpirySettings:
    """Seconds between two looks at a queue: that has something, or nothing; the pause after `wake`; and between two
    looks at what was delivered.
    """

    busy: float = 5.0
    idle: float = 30.0
    wake: float = 1.0
    delivered: float = 30.0


@define(eq=False)
class _Watched:
    """What is known of a queue. Deadlines are times of NATS."""

    due: float
    is_empty: bool = True
    read_until: int = 0
    """The last sequence whose deadline was read."""
    deadlines: list[tuple[datetime, int]] = field(factory=list)
    """A heap of own deadlines of messages, with their sequences."""
    delivered_at: float = 0.0
    """When delivered messages were last looked at."""
    unheld: set[int] = field(factory=set)
    """Delivered messages that no worker had then."""


class Expiry:
    """Expires what waits too long, and measures the queues on the way."""

    def __init__(
        self,
        bus: Bus,
        functions: FunctionSource,
        commits: Commits,
        redeliveries: Redeliveries,
        clock: ServerClock,
        figures: DispatchFigures,
        settings: ExpirySettings | None = None,
    ) -> None:
        self._bus = bus
        self._functions = functions
        self._commits = commits
        self._redeliveries = redeliveries
        self._clock = clock
        self._figures = figures
        self._settings = settings or ExpirySettings()
        self._loop = asyncio.get_running_loop()
        self._queues: dict[ObjectKey, _Watched] = {}
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Look until cancelled. NATS never ends it."""
        try:
            for key in self._functions.keys():  # noqa: SIM118 - it is no mapping
                self._on_function(key)
            async with self._functions.watched(self._on_function):
                with self._bus.listen(f"{_WAKE}>", self._on_wake):
                    while True:
                        await self._until_due()
                        await self._look_at_due()
        finally:
            self._queues.clear()
            self._figures.queues.clear()

    def _on_function(self, key: ObjectKey) -> None:
        watched = self._queues.setdefault(key, _Watched(self._loop.time()))
        watched.due = self._loop.time()
        self._changed.set()

    def _on_wake(self, message: Message) -> None:
        namespace, _, name = message.subject.removeprefix(_WAKE).partition(".")
        watched = self._queues.get(ObjectKey(namespace, name))
        soon = self._loop.time() + self._settings.wake
        if watched is not None and watched.is_empty and watched.due > soon:
            watched.due = soon
            self._changed.set()

    async def _until_due(self) -> None:
        self._changed.clear()
        first = min((watched.due for watched in self._queues.values()), default=float("inf"))
        left = first - self._loop.time()
        if left > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(None if left == float("inf") else left):
                    await self._changed.wait()

    async def _look_at_due(self) -> None:
        await self._bus.wait_connected()
        now = self._loop.time()
        for key in [key for key, watched in self._queues.items() if watched.due <= now]:
            function = self._functions.get(key)
            if function is None or function.metadata.deletion_timestamp is not None:
                self._queues.pop(key, None)
                self._figures.queues.pop(key, None)
                continue
            watched = self._queues[key]
            watched.due = now + self._settings.idle
            try:
                await self._look(function, watched)
            except BusError as error:
                watched.due = self._loop.time() + self._settings.busy
                _LOG.debug("queue cannot be looked at now", extra={"function": str(key), "error": str(error)})

    async def _look(self, function: GPUFunction, watched: _Watched) -> None:
        stream, limits = function_stream(function.key), limits_of(function)
        consumer = await self._bus.jetstream.consumer_info(stream, WORKERS_CONSUMER)
        if consumer is None:
            self._figures.queues.pop(function.key, None)
            return
        self._clock.observe(consumer.server_time)
        head = await self._expire_heads(stream, consumer, limits)
        watched.is_empty = head is None
        waited = 0.0 if head is None else max(0.0, (self._clock.now() - head.time).total_seconds())
        self._figures.queues[function.key] = QueueDepth(consumer.num_pending, waited)
        pause = self._settings.idle
        if head is not None:
            left = (head.time + limits.queue_ttl_of(_queued(head)) - self._clock.now()).total_seconds()
            pause = min(self._settings.busy, max(0.0, left))
            has_more = await self._read_deadlines(stream, consumer, watched)
            pause = min(pause, 0.0 if has_more else await self._expire_own_deadlines(stream, consumer, watched, limits))
        await self._expire_delivered(stream, consumer, watched, limits)
        watched.due = min(watched.due, self._loop.time() + pause)

    async def _expire_heads(self, stream: str, consumer: ConsumerInfo, limits: RunLimits) -> StoredMessage | None:
        """Expire the first messages that are due; returns the first one that waits on, or the last one looked at."""
        head = await self._next(stream, consumer.delivered_sequence + 1)
        for _ in range(_MOST_EXPIRED):
            if head is None or not self._is_due(head, limits):
                break
            await self._expire(stream, head, limits)
            head = await self._next(stream, head.sequence + 1)
        return head

    async def _read_deadlines(self, stream: str, consumer: ConsumerInfo, watched: _Watched) -> bool:
        """Read the own deadlines of messages that were not read yet; returns whether there are more."""
        sequence = max(watched.read_until, consumer.delivered_sequence) + 1
        for _ in range(_MOST_READ):
            message = await self._next(stream, sequence)
            if message is None:
                return False
            watched.read_until, sequence = message.sequence, message.sequence + 1
            queued = _queued(message)
            if queued.queue_ttl_millis:
                deadline = message.time + timedelta(milliseconds=queued.queue_ttl_millis)
                heapq.heappush(watched.deadlines, (deadline, message.sequence))
        return True

    async def _expire_own_deadlines(
        self, stream: str, consumer: ConsumerInfo, watched: _Watched, limits: RunLimits
    ) -> float:
        """Expire messages whose own deadline has passed; returns seconds until the next one."""
        while watched.deadlines:
            deadline, sequence = watched.deadlines[0]
            left = (deadline - self._clock.now()).total_seconds()
            if left > 0:
                return left
            heapq.heappop(watched.deadlines)
            if sequence > consumer.delivered_sequence:
                message = await self._next(stream, sequence)
                if message is not None and message.sequence == sequence:
                    await self._expire(stream, message, limits)
        return self._settings.idle

    async def _expire_delivered(
        self, stream: str, consumer: ConsumerInfo, watched: _Watched, limits: RunLimits
    ) -> None:
        """Expire what was delivered, is older than it may be, and has no worker now and had none at the last look."""
        now = self._loop.time()
        if not consumer.num_ack_pending or now < watched.delivered_at + self._settings.delivered:
            return
        watched.delivered_at = now
        unheld, sequence = set[int](), 1
        for _ in range(_MOST_READ):
            message = await self._next(stream, sequence)
            if message is None or message.sequence > consumer.delivered_sequence:
                break
            sequence = message.sequence + 1
            if not self._is_due(message, limits):
                continue
            if not await self._redeliveries.is_held_elsewhere(key_of_subject(message.subject)):
                if message.sequence in watched.unheld:
                    await self._expire(stream, message, limits)
                else:
                    unheld.add(message.sequence)
        watched.unheld = unheld

    async def _expire(self, stream: str, message: StoredMessage, limits: RunLimits) -> None:
        key, queued = key_of_subject(message.subject), _queued(message)
        end = end_unstarted(
            InvocationState.EXPIRED,
            FailureClass.QUEUE_TIMEOUT,
            f"no worker took it within {limits.queue_ttl_of(queued).total_seconds():g} s",
            accepted=message.time,
            now=self._clock.now(),
            result_ttl_millis=limits.result_ttl_millis,
            queued=queued,
        )
        request = Request(message.body, message.headers.get(METADATA_HEADER, ""), limits.dead_letter_seconds)
        await self._commits.end(key, end, reply=queued.reply, request=request)
        await self._bus.jetstream.delete_message(stream, message.sequence)

    def _is_due(self, message: StoredMessage, limits: RunLimits) -> bool:
        return self._clock.now() - message.time >= limits.queue_ttl_of(_queued(message))

    async def _next(self, stream: str, sequence: int) -> StoredMessage | None:
        return await self._bus.jetstream.next_message(stream, "inv.*.*.*", sequence)


def _queued(message: StoredMessage) -> QueuedInvocation:
    """The request; one that cannot be read waits like others, until a worker's activator ends it."""
    try:
        return read_queued(message.headers)
    except MessageError:
        return QueuedInvocation(request_hash="")
