"""Deliveries by credit: the server sends no more than was asked for, and nothing that it sends is dropped.

A pull sends requests, each for a number of messages and with an end. The server ends one early or in time, and says
then how much of it is left; one that is used up ends without a word. Their sum is `outstanding`, and follows what the
reader wants:

============================  =========================================================================================
a message arrives             one less is wanted, one less outstanding. A message of a request that has ended is still
                              delivered: the reader gets it, whatever became of its request
a request ends (408, 409)     what was left of it is asked for again
more is wanted                a request for the difference. Of requests there are 32 at most: beyond, the difference
                              waits for one of them to be used up
less is wanted                the subscription ends, the pull waits until the server has read that, and asks anew
two heartbeats are missing    the same: requests die silently when a leader changes or a server is restored
the connection is lost        all requests are forgotten, and asked for anew after the next connect
the consumer is deleted       ConsumerGoneError, after what arrived before it
============================  =========================================================================================
"""

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import Final, Protocol, Self

import orjson

from gpuruntime.bus.errors import BusError, BusUnavailableError, ConsumerGoneError
from gpuruntime.bus.frames import Handler
from gpuruntime.bus.headers import NO_HEADERS, Headers, decode_headers
from gpuruntime.bus.messages import Delivery, delivery_of
from gpuruntime.bus.streams import ConsumerInfo

__all__ = ["Pull", "PullConnection"]

_LOG: Final = logging.getLogger(__name__)
_MOST_REQUESTS: Final = 32
_SETTLE_SECONDS: Final = 10.0
_RETRY_SECONDS: Final = 0.5
_NANOSECONDS: Final = 1_000_000_000
_ACK: Final = b"$JS.ACK."
_HEARTBEAT: Final = 100


class PullConnection(Protocol):
    """What a pull needs of the connection."""

    @property
    def connected(self) -> bool: ...

    def send(self, subject: str, body: bytes = b"", headers: Headers | None = None, reply: str = "") -> None: ...

    def new_inbox(self) -> str: ...

    def add_subscription(
        self, subject: str, queue: str, handler: Handler, on_refused: Callable[[BusError], None]
    ) -> int: ...

    def stop_subscription(self, number: int) -> None: ...

    def remove_subscription(self, number: int) -> None: ...

    def on_connected(self, callback: Callable[[], None]) -> AbstractContextManager[None]: ...

    def on_refused(self, subject: str, callback: Callable[[BusError], None]) -> AbstractContextManager[None]: ...

    async def settled(self, seconds: float) -> None: ...


class Pull:
    """The deliveries of a consumer, as many as there is credit for. Used as an `async with` block, read by `async for`.

    Guarantees:
        - No more deliveries come than credit was given, except after `set_credit` took some back: what the server had
          sent by then still comes.
        - Every message that reaches this process is read, also one of a request that has ended meanwhile.
        - Requests are made anew by themselves: see the table above.

    Caveats:
        What is unread at the end of the block is delivered again, to any process, after the consumer's `ack_wait`.
    """

    def __init__(
        self,
        bus: PullConnection,
        stream: str,
        consumer: str,
        expires: float,
        heartbeat: float,
        consumer_info: Callable[[str, str], Awaitable[ConsumerInfo | None]],
    ) -> None:
        if not 0 < 2 * heartbeat <= expires:
            raise ValueError(f"expected a heartbeat of at most half of expires, got {heartbeat:g} s of {expires:g} s")
        self._bus = bus
        self._stream, self._consumer = stream, consumer
        self._subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"
        self._expires, self._heartbeat = expires, heartbeat
        self._silence = 2.2 * heartbeat
        self._consumer_info = consumer_info
        self._wanted = 0
        self._outstanding = 0
        self._requests: dict[str, float] = {}  # by token, when each has certainly ended
        self._tokens = itertools.count(1)
        self._inbox = ""
        self._number = 0
        self._heard = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._turning = False
        self._refused = False
        self._turn = asyncio.Event()
        self._unread: deque[Delivery] = deque()
        self._arrived = asyncio.Event()
        self._error: BusError | None = None
        self._resources = ExitStack()
        self._keeper: asyncio.Task[None] | None = None

    @property
    def credit(self) -> int:
        """How many deliveries are still wanted, those that arrived apart."""
        return self._wanted

    def add_credit(self, count: int) -> None:
        """Want `count` deliveries more."""
        if count < 0:
            raise ValueError(f"expected a number of at least 0, got {count}: set_credit takes credit back")
        self._wanted += count
        self._request()

    def set_credit(self, count: int) -> None:
        """Want `count` deliveries from now on, those that arrived apart; less than before takes credit back."""
        if count < 0:
            raise ValueError(f"expected a number of at least 0, got {count}")
        self._wanted = count
        if self._outstanding > count:
            self._turn_over()
        else:
            self._request()

    async def __aenter__(self) -> Self:
        self._resources.enter_context(self._bus.on_connected(self._begin_anew))
        self._resources.enter_context(self._bus.on_refused(self._subject, self._fail))
        self._begin_anew()
        self._keeper = asyncio.create_task(self._keep(), name=f"pull {self._stream}/{self._consumer}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._wanted = 0
        self._resources.close()
        self._bus.remove_subscription(self._number)
        if self._timer is not None:
            self._timer.cancel()
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delivery:
        """The next delivery.

        Raises:
            ConsumerGoneError: the consumer was deleted, or there is none.
            BusPermissionError: this user may not pull.
        """
        while not self._unread:
            if self._error is not None:
                raise self._error
            self._arrived.clear()
            await self._arrived.wait()
        return self._unread.popleft()

    def _request(self) -> None:
        """Ask for what is wanted and not asked for yet."""
        missing = self._wanted - self._outstanding
        if missing <= 0 or self._turning or self._error is not None or not self._bus.connected:
            return
        now = asyncio.get_running_loop().time()
        if self._outstanding == 0:
            self._requests.clear()
            self._heard = now
        elif len(self._requests) >= _MOST_REQUESTS:
            self._requests = {token: ends for token, ends in self._requests.items() if ends > now}
            # A request that is used up ends without a word, so there are at most as many as messages outstanding.
            if min(len(self._requests), self._outstanding) >= _MOST_REQUESTS:
                return
        token = str(next(self._tokens))
        asked = {
            "batch": missing,
            "expires": round(self._expires * _NANOSECONDS),
            "idle_heartbeat": round(self._heartbeat * _NANOSECONDS),
        }
        try:
            self._bus.send(self._subject, orjson.dumps(asked), None, f"{self._inbox}.{token}")
        except BusUnavailableError:
            return  # the next connect asks
        self._requests[token] = now + self._expires + self._silence
        self._outstanding += missing
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_at(now + self._silence, self._check_heartbeats)

    def _receive(self, subject: bytes, reply: bytes, body: bytes, headers: bytes | None) -> None:
        self._heard = asyncio.get_running_loop().time()
        if reply.startswith(_ACK):
            given = decode_headers(headers).headers if headers else NO_HEADERS
            found = delivery_of(subject.decode(), body, given, reply.decode())
            if found is not None:
                self._wanted = max(0, self._wanted - 1)
                self._outstanding = max(0, self._outstanding - 1)
                self._unread.append(found)
                self._arrived.set()
                self._request()
        elif headers:
            self._receive_status(subject.decode().rpartition(".")[2], headers)

    def _receive_status(self, token: str, headers: bytes) -> None:
        block = decode_headers(headers)
        if block.status == _HEARTBEAT:
            return
        if block.description == "Consumer Deleted":
            self._fail(ConsumerGoneError(f"consumer {self._consumer} of stream {self._stream} was deleted"))
            return
        if self._requests.pop(token, None) is None:
            return
        left = block.headers.get("Nats-Pending-Messages")
        if left is not None and left.isdigit():
            self._outstanding = max(0, self._outstanding - int(left))
            self._request()
        else:
            # A refusal, no consumer, or a leader that is one no more: what became of the requests is not known.
            self._refused = True
            _LOG.warning(
                "pull request refused",
                extra={
                    "stream": self._stream,
                    "consumer": self._consumer,
                    "status": block.status,
                    "error": block.description,
                },
            )
            self._turn_over()

    def _check_heartbeats(self) -> None:
        self._timer = None
        if self._outstanding == 0 or self._turning or self._error is not None:
            return
        loop = asyncio.get_running_loop()
        if loop.time() >= self._heard + self._silence:
            _LOG.warning(
                "pull heartbeats missing",
                extra={"stream": self._stream, "consumer": self._consumer, "outstanding": self._outstanding},
            )
            self._turn_over()
        else:
            self._timer = loop.call_at(self._heard + self._silence, self._check_heartbeats)

    def _turn_over(self) -> None:
        """End the subscription, and with it all requests; the keeper asks anew when the server has read that."""
        if not self._turning:
            self._turning = True
            self._bus.stop_subscription(self._number)
            self._turn.set()

    async def _keep(self) -> None:
        while True:
            await self._turn.wait()
            self._turn.clear()
            number = self._number
            try:
                if self._refused:
                    await self._require_consumer()
                await self._bus.settled(_SETTLE_SECONDS)
            except ConsumerGoneError as error:
                self._fail(error)
            except BusError:
                # Not connected, or no answer: the next connect begins anew, or this does.
                await asyncio.sleep(_RETRY_SECONDS)
            if number == self._number and self._error is None:
                self._begin_anew()

    async def _require_consumer(self) -> None:
        self._refused = False
        if await self._consumer_info(self._stream, self._consumer) is None:
            raise ConsumerGoneError(f"stream {self._stream} has no consumer {self._consumer}")
        await asyncio.sleep(_RETRY_SECONDS)  # what was refused once may be refused again

    def _begin_anew(self) -> None:
        """Ask for everything on a new subscription: none of the earlier requests exists any more."""
        self._bus.remove_subscription(self._number)
        self._inbox = self._bus.new_inbox()
        self._number = self._bus.add_subscription(f"{self._inbox}.*", "", self._receive, self._fail)
        self._outstanding = 0
        self._turning = False
        self._request()

    def _fail(self, error: BusError) -> None:
        self._error = error
        self._arrived.set()
