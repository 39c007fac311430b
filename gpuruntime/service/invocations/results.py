"""The results of invocations: at most one per invocation, and the first one that is written counts.

API, activators and the archive share it. See the table of `gpuruntime.service.invocations` for who writes when.
"""

import asyncio
import math
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Final

from attrs import frozen

from gpuruntime.api.invocations import (
    RESULTS_STREAM,
    InvocationKey,
    ResultRecord,
    key_of_subject,
    metadata_headers,
    read_result,
    result_subject,
)
from gpuruntime.bus import (
    Bus,
    BusUnavailableError,
    OutcomeUnknownError,
    StoredMessage,
    SubjectTakenError,
)

__all__ = ["Committed", "EndedInvocation", "ResultLog", "is_same_end", "read_ended"]

_ATTEMPTS: Final = 4
# A hint may be lost with a connection, or with the activator that would have sent it.
_READ_AGAIN_SECONDS: Final = 5.0


@frozen
class EndedInvocation:
    """A stored result: the record, the bytes that the function returned, and when NATS stored them."""

    key: InvocationKey
    record: ResultRecord
    body: bytes
    sequence: int
    time: datetime


@frozen
class Committed:
    """The result that counts, and whether it is the one that the writer brought."""

    won: bool
    record: ResultRecord
    body: bytes


def is_same_end(record: ResultRecord, body: bytes, other: EndedInvocation) -> bool:
    """Whether two results are of one run, or of one cancellation. Times may differ: each activator reads its clock."""
    stored = other.record
    return (
        (record.state, record.failure_class, record.attempt, record.worker, record.status_code)
        == (stored.state, stored.failure_class, stored.attempt, stored.worker, stored.status_code)
        and record.request_hash == stored.request_hash
        and body == other.body
    )


def read_ended(subject: str, headers: Mapping[str, str], body: bytes, sequence: int, time: datetime) -> EndedInvocation:
    """The result in a message of the stream.

    Raises:
        MessageError: the message cannot be read: another program wrote it.
    """
    return EndedInvocation(key_of_subject(subject), read_result(headers), body, sequence, time)


@frozen
class ResultLog:
    """Writes and reads results.

    Guarantees:
        Of all results that are committed for a key, one is stored, and all callers of `commit` learn which. Reads come
        from the leader: what was committed is found.
    """

    bus: Bus

    async def commit(self, key: InvocationKey, record: ResultRecord, body: bytes = b"") -> Committed:
        """Store a result unless there is one. It can be repeated: the same end is stored once, and has won each time.

        The result expires after the record's `result_ttl_millis`.

        Raises:
            BusUnavailableError: NATS does not answer; it may or may not be stored.
            QueueFullError, StorageFullError: there is no room for it.
            MessageTooLargeError: it is larger than NATS allows.
            MessageError: the stored result cannot be read.
            SubjectTakenError: there was a result, which has expired meanwhile: this one comes far too late.
        """
        for attempt in range(_ATTEMPTS):
            try:
                return await self._commit(key, record, body, is_first=attempt == 0)
            except OutcomeUnknownError:
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError

    async def get(self, key: InvocationKey) -> EndedInvocation | None:
        """The result of an invocation, from the leader; None if it has not ended, or if its result has expired.

        Raises:
            BusUnavailableError: NATS does not answer.
            StreamMissingError: there are no results yet, not even their stream.
            MessageError: the stored result cannot be read.
        """
        found = await self.bus.jetstream.last_message(RESULTS_STREAM, result_subject(key))
        return None if found is None else _ended(found)

    async def wait(self, key: InvocationKey, within: float) -> EndedInvocation | None:
        """The result once there is one; None if there is none within this time. It waits on while NATS is away.

        A result that the function's TTL has removed before it was read is missed: the wait goes on.

        Raises:
            MessageError: the stored result cannot be read.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within
        # Subscribed first: a result that is stored after the read gives a hint. A refused publish gives one as well.
        async with self.bus.subscribe(result_subject(key)) as hints:
            while True:
                with suppress(BusUnavailableError):
                    found = await self.get(key)
                    if found is not None:
                        return found
                left = deadline - loop.time()
                if left <= 0:
                    return None
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(left, _READ_AGAIN_SECONDS)):
                        await anext(hints)

    async def _commit(self, key: InvocationKey, record: ResultRecord, body: bytes, *, is_first: bool) -> Committed:
        if not is_first:
            known = await self.get(key)
            if known is not None:
                return _compared(record, body, known)
        try:
            await self.bus.jetstream.publish(
                result_subject(key),
                body,
                metadata_headers(record),
                expect_last_subject_sequence=0,
                ttl=math.ceil(record.result_ttl_millis / 1000) or None,
            )
        except SubjectTakenError:
            known = await self.get(key)
            if known is None:
                raise
            return _compared(record, body, known)
        return Committed(won=True, record=record, body=body)


def _compared(record: ResultRecord, body: bytes, known: EndedInvocation) -> Committed:
    return Committed(is_same_end(record, body, known), known.record, known.body)


def _ended(found: StoredMessage) -> EndedInvocation:
    return read_ended(found.subject, found.headers, found.body, found.sequence, found.time)
