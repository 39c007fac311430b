"""The end of an invocation, written: the letter of the request, the result, the acknowledgement, the reply.

=============================  ========================================================================================
this process dies before       the worker brings its result to another activator; an end without a worker is found
the result is stored           again at the next delivery, or at the next look. The letter is written once per subject
it dies after that             the worker brings it again: the same end, which has won; the message comes again, its
                               result is found, and it is acknowledged
NATS does not answer           BusUnavailableError: the caller tries again, with the same content
there is no room for letters   logged; the result counts more than the letter
another end was first          `won` is false; nothing is acknowledged that is not ended
=============================  ========================================================================================
"""

import asyncio
import logging
from typing import Final

from attrs import field, frozen

from gpuruntime.api.invocations import (
    DEAD_LETTERS_STREAM,
    METADATA_HEADER,
    InvocationKey,
    MessageError,
    ResultRecord,
    dead_letter_subject,
    metadata_headers,
)
from gpuruntime.bus import (
    Bus,
    BusError,
    BusUnavailableError,
    MessageTooLargeError,
    OutcomeUnknownError,
    QueueFullError,
    StorageFullError,
    SubjectTakenError,
)
from gpuruntime.dispatch.activator.figures import DispatchFigures
from gpuruntime.dispatch.activator.runs.endings import End, too_large, wants_letter
from gpuruntime.service.invocations.results import Committed, ResultLog

__all__ = ["Commits", "Request"]

_LOG: Final = logging.getLogger(__name__)
_INBOX: Final = "_INBOX."
# A system call costs more than all else that is done for an acknowledgement, and none of them is urgent.
_ACK_SECONDS: Final = 0.02


@frozen
class Request:
    """The request of an invocation as it is in the queue."""

    body: bytes
    metadata: str
    """The header with all but the body; "" if it has none."""
    dead_letter_seconds: float


@frozen
class Commits:
    """Ends invocations.

    Guarantees:
        Nothing is acknowledged before its end is stored. An end can be written again: the first one counts.
    """

    bus: Bus
    results: ResultLog
    figures: DispatchFigures
    unsent: list[str] = field(factory=list)
    """Acknowledgements that go out with the next result, or a moment later."""

    async def end(
        self, key: InvocationKey, end: End, *, ack_subject: str = "", reply: str = "", request: Request | None = None
    ) -> Committed:
        """Store the end of an invocation, unless it has one. A request is kept as a letter if the end is one without
        success. The reply gets a copy of the result that counts.

        Raises:
            BusError: NATS cannot take it now; it may be stored. Try again.
        """
        self.flush()
        if request is not None and wants_letter(end.record):
            await self._keep(key, request)
        committed = await self._commit(key, end)
        if committed.won:
            self.figures.count_end(committed.record)
        elif _was_run(end.record) and _was_run(committed.record):
            self.figures.executed_twice += 1
            _LOG.warning(
                "invocation was executed twice, the later result is dropped",
                extra={"invocation": str(key), "attempt": end.record.attempt, "worker": end.record.worker},
            )
        self.acknowledge(ack_subject)
        self.answer(reply, committed.record, committed.body)
        return committed

    def acknowledge(self, ack_subject: str) -> None:
        """Remove an ended invocation from its queue. If that is lost, it is delivered again and found ended."""
        if not ack_subject:
            return
        if not self.unsent:
            asyncio.get_running_loop().call_later(_ACK_SECONDS, self.flush)
        self.unsent.append(ack_subject)

    def flush(self) -> None:
        """Send what waits."""
        for ack_subject in self.unsent:
            self._send(ack_subject, b"+ACK")
        self.unsent.clear()

    def answer(self, reply: str, record: ResultRecord, body: bytes) -> None:
        """Send a copy of a result to the caller that waits for it. If that is lost, it is read from RESULTS."""
        if reply.startswith(_INBOX):
            self._send(reply, body, metadata_headers(record))

    async def _commit(self, key: InvocationKey, end: End) -> Committed:
        try:
            return await self.results.commit(key, end.record, end.body)
        except MessageTooLargeError as error:
            smaller = too_large(end.record, f"the result is larger than NATS takes: {error}")
            return await self.results.commit(key, smaller.record, smaller.body)
        except SubjectTakenError:
            # There was a result, which has expired since: this one comes far too late.
            return Committed(won=False, record=end.record, body=b"")
        except MessageError as error:
            _LOG.error("stored result cannot be read", extra={"invocation": str(key), "error": str(error)})
            return Committed(won=False, record=end.record, body=b"")

    async def _keep(self, key: InvocationKey, request: Request) -> None:
        headers = {METADATA_HEADER: request.metadata} if request.metadata else None
        try:
            await self.bus.jetstream.publish(
                dead_letter_subject(key),
                request.body,
                headers,
                expect_last_subject_sequence=0,
                ttl=request.dead_letter_seconds,
            )
        except SubjectTakenError:
            return  # written before, by this end or by an earlier invocation with this ID
        except OutcomeUnknownError:
            raise
        except (StorageFullError, QueueFullError, MessageTooLargeError) as error:
            _LOG.error(
                "request of a failed invocation cannot be kept",
                extra={"invocation": str(key), "stream": DEAD_LETTERS_STREAM, "error": str(error)},
            )

    def _send(self, subject: str, body: bytes, headers: dict[str, str] | None = None) -> None:
        try:
            self.bus.send(subject, body, headers)
        except (BusError, ValueError) as error:
            level = logging.DEBUG if isinstance(error, BusUnavailableError) else logging.WARNING
            _LOG.log(level, "message could not be sent", extra={"subject": subject, "error": str(error)})


def _was_run(record: ResultRecord) -> bool:
    """Whether a worker brought this end."""
    return bool(record.worker)
