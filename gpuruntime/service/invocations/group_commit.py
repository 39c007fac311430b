"""Writes requests to the queues of functions: one by one while there are few, together when many wait.

The server syncs its disk once a message, or once an atomic batch. A batch takes as long as some six single messages,
so it pays when twenty or more wait for the same stream::

    a request ──> fewer than 20 under way, none waits ──> published alone
         └──────> waits ──> 20 or more wait, no batch under way ──> all of them are one batch
                       └──> fewer, and less than 20 under way ──> published alone

A refused batch stores nothing, so its messages are published one by one: one duplicate, or the last free place of a
queue, refuses a whole batch.

Who dies, and what happens then:

==============================  =======================================================================================
NATS, or the connection         all messages under way fail with OutcomeUnknownError, those of a batch together
a caller who disconnects        a message that waits is dropped; one under way may be stored
this process                    as above for all of them. The server drops a batch whose last message never comes
==============================  =======================================================================================
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from attrs import define, field

from gpuruntime.bus import BatchRefusedError, BusError, JetStream, OutcomeUnknownError, OutgoingMessage, PublishAck

__all__ = ["LEAST_IN_A_BATCH", "MOST_IN_A_BATCH", "GroupCommit"]

LEAST_IN_A_BATCH: Final = 20
"""Messages that have to wait for a batch to pay, and messages that are under way alone at most."""
MOST_IN_A_BATCH: Final = 200
_MOST_BYTES: Final = 4 * 2**20
_ANSWER_SECONDS: Final = 5.0


@define(eq=False)
class _Waiting:
    """A message that waits. `turn` is its acknowledgement; None means that its caller publishes it alone."""

    message: OutgoingMessage
    turn: "asyncio.Future[PublishAck | None]"


@define(eq=False)
class _Line:
    """What waits for a stream, and what is under way to it."""

    stream: str
    waiting: deque[_Waiting] = field(factory=deque)
    alone: int = 0
    has_batch: bool = False

    @property
    def is_idle(self) -> bool:
        return not (self.waiting or self.alone or self.has_batch)

    def give_turn(self, waiting: _Waiting) -> None:
        """Have the caller of a message publish it alone, unless it has disconnected."""
        if not waiting.turn.done():
            self.alone += 1
            waiting.turn.set_result(None)


class GroupCommit:
    """Publishes messages, in batches where that is faster. `run` sends the batches; without it there are none.

    Guarantees:
        A message is stored when its `publish` returns. `publish` raises what `JetStream.publish` raises.
    """

    def __init__(
        self,
        jetstream: JetStream,
        on_batch: Callable[[int], None] = lambda _size: None,
        answer_seconds: float = _ANSWER_SECONDS,
    ) -> None:
        self._jetstream = jetstream
        self._on_batch = on_batch
        self._seconds = answer_seconds
        self._lines: dict[str, _Line] = {}
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Send batches until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                await asyncio.get_running_loop().create_future()
        finally:
            self._tasks = None
            for line in list(self._lines.values()):
                self._pump(line)

    async def publish(self, stream: str, message: OutgoingMessage) -> PublishAck:
        """Store a message in a stream.

        Raises:
            BusError: see `JetStream.publish`.
        """
        line = self._lines.get(stream)
        if line is None:
            line = self._lines[stream] = _Line(stream)
        if line.waiting or line.has_batch or line.alone >= LEAST_IN_A_BATCH:
            ack = await self._turn(line, message)
            if ack is not None:
                return ack
        else:
            line.alone += 1
        try:
            return await self._jetstream.publish(
                message.subject, message.body, message.headers, message_id=message.message_id, timeout=self._seconds
            )
        finally:
            self._leave(line)

    async def _turn(self, line: _Line, message: OutgoingMessage) -> PublishAck | None:
        """Wait for the batch with the message; None if the caller is to publish it alone, and is counted as such."""
        waiting = _Waiting(message, asyncio.get_running_loop().create_future())
        line.waiting.append(waiting)
        try:
            return await waiting.turn
        except asyncio.CancelledError:
            if _was_given(waiting.turn):
                self._leave(line)
            raise

    def _leave(self, line: _Line) -> None:
        line.alone -= 1
        self._pump(line)

    def _pump(self, line: _Line) -> None:
        """Send what can be sent, after something ended."""
        while line.waiting and line.waiting[0].turn.done():
            line.waiting.popleft()  # its caller has disconnected
        if line.is_idle:
            self._lines.pop(line.stream, None)
        elif line.has_batch or not line.waiting:
            pass
        elif len(line.waiting) >= LEAST_IN_A_BATCH and self._tasks is not None:
            line.has_batch = True
            self._tasks.create_task(self._send(line, _batch(line.waiting)), name=f"batch for {line.stream}")
        else:
            for _ in range(min(len(line.waiting), LEAST_IN_A_BATCH - line.alone)):
                line.give_turn(line.waiting.popleft())

    async def _send(self, line: _Line, batch: list[_Waiting]) -> None:
        error: BusError = OutcomeUnknownError("the process stopped before the answer")
        try:
            last = await self._jetstream.publish_batch([one.message for one in batch], timeout=self._seconds)
        except BatchRefusedError:
            for one in batch:
                line.give_turn(one)
        except BusError as failure:
            error = failure
        else:
            self._on_batch(len(batch))
            # The messages of a batch are stored one after the other.
            for number, one in enumerate(reversed(batch)):
                if not one.turn.done():
                    one.turn.set_result(PublishAck(last.stream, last.sequence - number))
        finally:
            for one in batch:
                if not one.turn.done():
                    one.turn.set_exception(error)
            line.has_batch = False
            self._pump(line)


def _was_given(turn: "asyncio.Future[PublishAck | None]") -> bool:
    return turn.done() and not turn.cancelled() and turn.exception() is None and turn.result() is None


def _batch(waiting: deque[_Waiting]) -> list[_Waiting]:
    """The first of those that wait, as far as they fit into a batch: at least one."""
    batch: list[_Waiting] = []
    size = 0
    while waiting and len(batch) < MOST_IN_A_BATCH:
        size += len(waiting[0].message.body)
        if batch and size > _MOST_BYTES:
            break
        one = waiting.popleft()
        if not one.turn.done():
            batch.append(one)
    return batch
