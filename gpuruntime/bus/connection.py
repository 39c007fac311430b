"""The connection of a process to NATS: it reconnects for ever, and never lies about what was sent.

Who dies, and what happens then:

================================  =====================================================================================
the server, or the connection     requests under way fail at once: BusTimeoutError, or OutcomeUnknownError for writes.
                                  New ones fail with BusUnavailableError until `run` has connected again
a server of several               the next one is tried, after a delay that grows to two seconds
a server that stopped answering   found by pings after ten to fifteen seconds, then as above
the password is replaced          files are read at each connect; a refused one is tried again with the new contents
this process                      nothing is left: the server forgets its subscriptions
================================  =====================================================================================
"""

import asyncio
import itertools
import logging
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from random import Random
from typing import TYPE_CHECKING, Final

from attrs import define, frozen

from gpuruntime.aio.backoff import Backoff, BackoffSchedule
from gpuruntime.bus.errors import (
    BusError,
    BusPermissionError,
    BusTimeoutError,
    BusUnavailableError,
    ConsumerGoneError,
    MessageTooLargeError,
    NoRespondersError,
    OutcomeUnknownError,
)
from gpuruntime.bus.frames import Handler, publish_frame, subscribe_frame, unsubscribe_frame
from gpuruntime.bus.headers import Headers, encode_headers
from gpuruntime.bus.jetstream import JetStream
from gpuruntime.bus.messages import Message
from gpuruntime.bus.options import BusOptions
from gpuruntime.bus.subscriptions import Listener, Subscription, read_message

if TYPE_CHECKING:
    from gpuruntime.bus.wire import Wire

__all__ = ["Bus", "ExpectedReply"]

_LOG: Final = logging.getLogger(__name__)
_RECONNECTS: Final = BackoffSchedule(base=0.05, factor=2.0, cap=2.0, reset=10.0)
_NO_RESPONDERS: Final = 503
_SECONDS: Final = 5.0
_VIOLATION: Final = re.compile(r'permissions violation for (publish|subscription) (?:to|with reply of) "([^"]+)"')


@frozen
class _Route:
    """A subscription of this connection, under a number that stays the same across reconnects."""

    subject: str
    queue: str
    on_refused: Callable[[BusError], None]


@define(eq=False)
class _Question:
    """A request under way. `lost` is the error if its answer never comes."""

    subject: str
    answer: "asyncio.Future[Message]"
    lost: type[BusError]


@frozen
class ExpectedReply:
    """A subject for one reply, and the reply."""

    subject: str
    _reply: "asyncio.Future[Message]"

    async def wait(self) -> Message:
        """The reply. A reply that is sent while this process is not connected never comes: bound the wait, and look
        elsewhere then.
        """
        return await asyncio.shield(self._reply)


class Bus:
    """One connection for a process, which `run` keeps up.

    Guarantees:
        - Nothing is buffered while there is no connection: what cannot be sent fails with BusUnavailableError.
        - A write without an answer fails with OutcomeUnknownError, at once when the connection is lost.
        - Subscriptions and pulls survive reconnects.
        - Files of credentials and TLS are read at each connect.
    """

    def __init__(self, options: BusOptions, random: Random | None = None) -> None:
        self._options = options
        self._random = random or Random()
        self._wire: Wire | None = None
        self._connected = asyncio.Event()
        self._disconnected = asyncio.Event()
        self._disconnected.set()
        self._problem = "not connected to NATS yet"
        self._handlers: dict[int, Handler] = {}
        self._routes: dict[int, _Route] = {}
        self._numbers = itertools.count(1)
        self._questions: dict[str, _Question] = {}
        self._expected: dict[str, asyncio.Future[Message]] = {}
        self._on_connected: dict[int, Callable[[], None]] = {}
        self._on_refused: dict[int, tuple[str, Callable[[BusError], None]]] = {}
        self._inbox = f"{options.inbox_prefix}.{secrets.token_hex(11)}"
        self._answers = len(self._inbox) + 1
        self.jetstream: Final = JetStream(self)
        self.connects = 0
        """How often a connection was made: all but the first are reconnects."""
        self.add_subscription(f"{self._inbox}.*", "", self._receive_answer, self._refuse_answers)

    @property
    def connected(self) -> bool:
        return self._connected.is_set()

    @property
    def problem(self) -> str:
        """Why there is no connection; "" while there is one."""
        return "" if self.connected else self._problem

    @property
    def max_payload(self) -> int:
        """The most bytes of headers and body that the server takes; 0 while there is no connection."""
        return 0 if self._wire is None else self._wire.max_payload

    async def wait_connected(self) -> None:
        await self._connected.wait()

    async def wait_disconnected(self) -> None:
        await self._disconnected.wait()

    async def run(self) -> None:
        """Stay connected until cancelled. A server that is away, or refuses, is tried again for ever."""
        # Imported here: processes without NATS need neither the client library nor the time that its import takes.
        from gpuruntime.bus.wire import open_wire  # noqa: PLC0415

        backoff = Backoff(_RECONNECTS, self._random)
        loop = asyncio.get_running_loop()
        servers = list(self._options.servers)
        self._random.shuffle(servers)
        cancellation = _Cancellation()
        for server in itertools.cycle(servers):
            cancellation.pass_on()
            try:
                wire = await open_wire(server, self._options, self._handlers, self._report_violation)
            except BusUnavailableError as error:
                cancellation.pass_on()
                if self._problem != str(error):
                    self._problem = str(error)
                    _LOG.warning("NATS connection failed", extra={"server": server, "error": self._problem})
                await asyncio.sleep(backoff.next(loop.time()))
                continue
            try:
                cancellation.pass_on()
                self._begin(wire, server)
                await wire.lost.wait()
            finally:
                self._end(wire, server)
                await wire.close()

    async def publish(self, subject: str, body: bytes = b"", headers: Headers | None = None, reply: str = "") -> None:
        """Send a message to whatever subscribes to it now: fire and forget.

        Raises:
            BusUnavailableError: there is no connection.
            MessageTooLargeError: the server takes less.
            ValueError: the subject or a header is malformed.
        """
        self.send(subject, body, headers, reply)

    async def request(
        self,
        subject: str,
        body: bytes = b"",
        headers: Headers | None = None,
        *,
        timeout: float,  # noqa: ASYNC109 - a timer costs a third of what asyncio.timeout does
    ) -> Message:
        """Send a message and wait for one answer.

        Raises:
            NoRespondersError: nothing subscribes to the subject.
            BusTimeoutError: no answer in time, or the connection was lost meanwhile.
            BusUnavailableError: there is no connection; nothing was sent.
            BusPermissionError: this user may not publish to the subject.
        """
        answer = await self.ask(subject, body, headers, timeout, BusTimeoutError)
        if answer.status == _NO_RESPONDERS:
            raise NoRespondersError(f"{subject}: nothing subscribes to it")
        return answer

    def subscribe(self, subject: str, queue: str = "") -> AbstractAsyncContextManager[Subscription]:
        """Messages of a subject, for `async for`. With a `queue`, each goes to one of its subscribers."""
        return Subscription(self, subject, queue)

    def listen(
        self, subject: str, on_message: Callable[[Message], None], queue: str = ""
    ) -> AbstractContextManager[Listener]:
        """Messages of a subject, for a callback: cheaper than `subscribe`."""
        return Listener(self, subject, queue, on_message)

    def new_inbox(self) -> str:
        """A new subject that this user may subscribe to. To wait for one reply, `expect_reply` is cheaper."""
        return f"{self._inbox}.inbox.{next(self._numbers)}"

    @contextmanager
    def expect_reply(self) -> Iterator[ExpectedReply]:
        """A subject for one reply, for the length of the block. It costs no subscription."""
        token = str(next(self._numbers))
        expected = ExpectedReply(f"{self._inbox}.{token}", asyncio.get_running_loop().create_future())
        self._expected[token] = expected._reply  # noqa: SLF001 - the value is made here
        try:
            yield expected
        finally:
            del self._expected[token]

    @contextmanager
    def on_connected(self, callback: Callable[[], None]) -> Iterator[None]:
        """Call `callback` after each connect, for the length of the block: what was missed can be read now."""
        number = next(self._numbers)
        self._on_connected[number] = callback
        try:
            yield
        finally:
            del self._on_connected[number]

    @contextmanager
    def on_refused(self, subject: str, callback: Callable[[BusError], None]) -> Iterator[None]:
        """Call `callback` when the server refuses what this connection publishes to a subject, for the length of the
        block.
        """
        number = next(self._numbers)
        self._on_refused[number] = (subject.lower(), callback)
        try:
            yield
        finally:
            del self._on_refused[number]

    async def ack(self, ack_subject: str, *, confirmed: bool = False, timeout: float = _SECONDS) -> None:  # noqa: ASYNC109 - see request
        """Acknowledge a delivery: its message is done. Unless `confirmed`, nothing says that the server has read it.

        Raises:
            BusUnavailableError: there is no connection.
            OutcomeUnknownError: no confirmation in time.
            ConsumerGoneError: nothing takes acknowledgements of that consumer any more; only if `confirmed`.
        """
        if not confirmed:
            self.send(ack_subject, b"+ACK")
            return
        answer = await self.ask(ack_subject, b"+ACK", None, timeout, OutcomeUnknownError)
        if answer.status == _NO_RESPONDERS:
            raise ConsumerGoneError(f"{ack_subject}: nothing takes acknowledgements of this consumer")

    async def extend(self, ack_subject: str) -> None:
        """Start the time to acknowledge anew: the work is in progress."""
        self.send(ack_subject, b"+WPI")

    async def nak(self, ack_subject: str, delay: float | None = None) -> None:
        """Give a delivery back: the message is delivered again, after `delay` seconds if given."""
        body = b"-NAK" if delay is None else f'-NAK {{"delay": {round(delay * 1e9)}}}'.encode()
        self.send(ack_subject, body)

    def send(self, subject: str, body: bytes = b"", headers: Headers | None = None, reply: str = "") -> None:
        """`publish` without a coroutine, for callbacks."""
        block = encode_headers(headers) if headers else b""
        wire = self._require()
        if len(block) + len(body) > wire.max_payload:
            size = len(block) + len(body)
            raise MessageTooLargeError(f"{subject}: expected at most {wire.max_payload} bytes, got {size}")
        wire.send(publish_frame(subject, reply, block, body))

    async def ask(
        self,
        subject: str,
        body: bytes,
        headers: Headers | None,
        timeout: float,  # noqa: ASYNC109 - see request
        lost: type[BusError],
    ) -> Message:
        """`request` with the error of a lost answer; an answer that nothing subscribes is returned, with its status."""
        loop = asyncio.get_running_loop()
        token = str(next(self._numbers))
        question = _Question(subject, loop.create_future(), lost)
        self._questions[token] = question
        try:
            self.send(subject, body, headers, f"{self._inbox}.{token}")
            timer = loop.call_later(timeout, _expire, question, timeout)
            try:
                return await question.answer
            finally:
                timer.cancel()
        finally:
            self._questions.pop(token, None)

    def add_subscription(
        self, subject: str, queue: str, handler: Handler, on_refused: Callable[[BusError], None]
    ) -> int:
        """Subscribe, now or at the next connect; returns the number of the subscription."""
        number = next(self._numbers)
        frame = subscribe_frame(subject, queue, number)
        self._handlers[number] = handler
        self._routes[number] = _Route(subject, queue, on_refused)
        self._send_if_connected(frame)
        return number

    def remove_subscription(self, number: int) -> None:
        """Unsubscribe; what arrives later is dropped."""
        self.stop_subscription(number)
        self._handlers.pop(number, None)

    def stop_subscription(self, number: int) -> None:
        """Have the server send no more; what it has sent already still reaches the handler."""
        if self._routes.pop(number, None) is not None:
            self._send_if_connected(unsubscribe_frame(number))

    async def settled(self, seconds: float) -> None:
        """Return when the server has read all that was sent, and what it sent before that is handled.

        Raises:
            BusUnavailableError: there is no connection, or no answer in time.
        """
        await self._require().settled(seconds)

    def _require(self) -> "Wire":
        if self._wire is None:
            raise BusUnavailableError(self._problem)
        return self._wire

    def _send_if_connected(self, frame: bytes) -> None:
        if self._wire is not None and not self._wire.lost.is_set():
            self._wire.send(frame)

    def _begin(self, wire: "Wire", server: str) -> None:
        for number, route in self._routes.items():
            wire.send(subscribe_frame(route.subject, route.queue, number))
        self._wire = wire
        self.connects += 1
        self._connected.set()
        self._disconnected.clear()
        _LOG.info("NATS connected", extra={"server": server, "connects": self.connects})
        for callback in list(self._on_connected.values()):
            callback()

    def _end(self, wire: "Wire", server: str) -> None:
        self._wire = None
        self._connected.clear()
        self._disconnected.set()
        self._problem = "not connected to NATS: the connection was lost"
        _LOG.warning("NATS connection ended", extra={"server": server, "error": str(wire.failure or "")})
        for question in self._questions.values():
            _fail(question, question.lost(f"{question.subject}: the connection to NATS was lost before the answer"))

    def _receive_answer(self, subject: bytes, reply: bytes, body: bytes, headers: bytes | None) -> None:
        token = subject[self._answers :].decode()
        question = self._questions.pop(token, None)
        answer = self._expected.get(token) if question is None else question.answer
        if answer is not None and not answer.done():
            answer.set_result(read_message(subject, reply, body, headers))

    def _refuse_answers(self, error: BusError) -> None:
        _LOG.error("NATS user may not subscribe to its inboxes", extra={"error": str(error)})
        for question in self._questions.values():
            _fail(question, BusPermissionError(str(error)))

    def _report_violation(self, text: str) -> None:
        """A refusal of the server. It has the subject in lower case, because the client library has."""
        found = _VIOLATION.search(text)
        error = BusPermissionError(f"NATS: {text}")
        concerned = 0
        if found is not None and found[1] == "publish":
            for question in self._questions.values():
                if question.subject.lower() == found[2]:
                    _fail(question, error)
                    concerned += 1
            for subject, callback in list(self._on_refused.values()):
                if subject == found[2]:
                    callback(error)
                    concerned += 1
        elif found is not None:
            for route in list(self._routes.values()):
                if route.subject.lower() == found[2]:
                    route.on_refused(error)
                    concerned += 1
        _LOG.warning("NATS permission refused", extra={"error": text, "callers": concerned})


class _Cancellation:
    """Notices that this task was cancelled although the client library swallowed it, as it does while it opens and
    closes a connection.
    """

    def __init__(self) -> None:
        self._before = self._asked()

    def pass_on(self) -> None:
        """Return unless the task was cancelled.

        Raises:
            CancelledError: it was.
        """
        if self._asked() > self._before:
            raise asyncio.CancelledError

    def _asked(self) -> int:
        task = asyncio.current_task()
        return 0 if task is None else task.cancelling()


def _expire(question: _Question, seconds: float) -> None:
    _fail(question, question.lost(f"{question.subject}: no answer from NATS within {seconds:g} s"))


def _fail(question: _Question, error: BusError) -> None:
    if not question.answer.done():
        question.answer.set_exception(error)
