"""Subscriptions to subjects of core NATS: at most once, and only while connected."""

import asyncio
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Final, Protocol, Self

from gpuruntime.bus.errors import BusError
from gpuruntime.bus.frames import Handler
from gpuruntime.bus.headers import NO_HEADERS, decode_headers
from gpuruntime.bus.messages import Message

__all__ = ["Listener", "Subscriber", "Subscription", "read_message"]

_MOST_UNREAD: Final = 65_536


class Subscriber(Protocol):
    """What a subscription needs of the connection: its subscriptions, which survive reconnects."""

    def add_subscription(
        self, subject: str, queue: str, handler: Handler, on_refused: Callable[[BusError], None]
    ) -> int: ...

    def remove_subscription(self, number: int) -> None: ...


def read_message(subject: bytes, reply: bytes, body: bytes, headers: bytes | None) -> Message:
    """The message of a frame."""
    if not headers:
        return Message(subject.decode(), body, NO_HEADERS, reply.decode())
    block = decode_headers(headers)
    return Message(subject.decode(), body, block.headers, reply.decode(), block.status, block.description)


class Listener:
    """A subscription whose messages go to a callback, which must not block. Used as a `with` block."""

    def __init__(self, bus: Subscriber, subject: str, queue: str, on_message: Callable[[Message], None]) -> None:
        self._bus, self._subject, self._queue = bus, subject, queue
        self._on_message = on_message
        self._number = 0
        self.refused: BusError | None = None
        """Why the server refused the subscription; None if it did not."""

    def __enter__(self) -> Self:
        self._number = self._bus.add_subscription(self._subject, self._queue, self._receive, self._refuse)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bus.remove_subscription(self._number)

    def _receive(self, subject: bytes, reply: bytes, body: bytes, headers: bytes | None) -> None:
        self._on_message(read_message(subject, reply, body, headers))

    def _refuse(self, error: BusError) -> None:
        self.refused = error


class Subscription:
    """A subscription that is read with `async for`. Used as an `async with` block.

    Guarantees:
        - What is published after the block was entered, by this connection or by one that learned of it through this
          connection, is received, as long as the connection is not lost.
        - It survives reconnects. What is published meanwhile is lost, as always with core NATS.

    Caveats:
        A reader that falls 65,536 messages behind loses new ones: `dropped` counts them.
    """

    def __init__(self, bus: Subscriber, subject: str, queue: str) -> None:
        self._bus, self._subject, self._queue = bus, subject, queue
        self._unread: deque[Message] = deque()
        self._arrived = asyncio.Event()
        self._refused: BusError | None = None
        self._number = 0
        self.dropped = 0

    async def __aenter__(self) -> Self:
        self._number = self._bus.add_subscription(self._subject, self._queue, self._receive, self._refuse)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bus.remove_subscription(self._number)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        """The next message.

        Raises:
            BusPermissionError: the user of this connection may not subscribe to the subject.
        """
        while not self._unread:
            if self._refused is not None:
                raise self._refused
            self._arrived.clear()
            await self._arrived.wait()
        return self._unread.popleft()

    def _receive(self, subject: bytes, reply: bytes, body: bytes, headers: bytes | None) -> None:
        if len(self._unread) >= _MOST_UNREAD:
            self.dropped += 1
            return
        self._unread.append(read_message(subject, reply, body, headers))
        self._arrived.set()

    def _refuse(self, error: BusError) -> None:
        self._refused = error
        self._arrived.set()
