"""Accepts invocations: one durable write, whatever else happens.

An ID that this process generated is new, so its request is written at once. An ID of a caller may be one that was used
before, minutes or hours ago, through any replica::

    read the queue ──> read the results ──> write, with the ID as message ID

A request leaves the queue after its result is stored. So if the queue has none and then there is no result either, the
ID was free when the queue was read, and any use since then is within the duplicate window of the stream. A write that
is answered as a duplicate, or refused because the subject is taken, met such a use: what is stored now says whether it
is the same request.

Who dies, and what happens then:

=========================  ============================================================================================
NATS, before the write     503; nothing is stored
NATS, during the write     the outcome is unknown: read, then written again with the same message ID, for some seconds.
                           Then 503, which names the ID: the caller sends it again with that ID
this process               no answer; the caller sends it again. Without an ID of its own it is another invocation
=========================  ============================================================================================
"""

import asyncio
import secrets
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from attrs import field, frozen

from gpuruntime.api.gpufunction import GPUFunction, request_id_of
from gpuruntime.api.invocations import (
    InvocationKey,
    InvocationMode,
    MessageError,
    QueuedInvocation,
    function_stream,
    make_invocation_id,
    metadata_headers,
    queue_subject,
    request_hash,
)
from gpuruntime.bus import (
    Bus,
    BusError,
    BusUnavailableError,
    OutcomeUnknownError,
    OutgoingMessage,
    PublishAck,
    QueueFullError,
    SubjectTakenError,
)
from gpuruntime.meta import EMPTY, FrozenDict, parse_quantity
from gpuruntime.service.errors import (
    InvocationConflictError,
    PayloadTooLargeError,
    QueueLimitError,
    ResultExpiredError,
)
from gpuruntime.service.invocations.figures import AcceptFigures
from gpuruntime.service.invocations.group_commit import GroupCommit
from gpuruntime.service.invocations.lookup import InvocationLookup, StoredRequest
from gpuruntime.service.invocations.pace import QueuePace
from gpuruntime.service.invocations.queue_bytes import QueueBytes
from gpuruntime.service.invocations.queue_errors import as_service_error
from gpuruntime.service.invocations.results import EndedInvocation
from gpuruntime.service.invocations.storage_guard import StorageGuard
from gpuruntime.service.invocations.streams import HEADER_BYTES
from gpuruntime.service.invocations.wakes import Wakes

__all__ = ["Accepted", "Accepting", "InvocationRequest"]

_JSON: Final = "application/json"
# The server needs 0.1 to 2 seconds to come back from a restart, and a stalled one may take its time.
_PATIENCE_SECONDS: Final = 8.0
_PAUSE_SECONDS: Final = 0.05
_OTHER_HEADERS: Final = 1024


@frozen
class InvocationRequest:
    """What a caller asks for. `own_id` is "" if the ID is to be generated."""

    function: GPUFunction
    payload: bytes = field(repr=False)
    own_id: str = ""
    mode: InvocationMode = InvocationMode.ASYNC
    content_type: str = _JSON
    headers: FrozenDict[str, str] = EMPTY
    attributes: FrozenDict[str, str] = EMPTY
    timeout_seconds: int = 0
    """How long a run may take, at most as long as the function allows; 0 is what the function says."""
    traceparent: str = ""


@frozen
class Accepted:
    """An accepted invocation.

    `known` is what was stored before, if the invocation is a duplicate. `sequence` is None if it has ended.
    """

    key: InvocationKey
    request_id: str
    mode: InvocationMode
    at: datetime
    sequence: int | None
    known: StoredRequest | EndedInvocation | None = None

    @property
    def is_duplicate(self) -> bool:
        return self.known is not None


@lru_cache(1024)
def _bytes(quantity: int | str) -> int:
    return parse_quantity(quantity).ceil()


@frozen
class Accepting:
    """Accepts invocations.

    Guarantees:
        An accepted invocation is on the disks of NATS. One ID of a function is one invocation, through however many
        replicas it is sent, until its result has expired.
    """

    bus: Bus
    lookup: InvocationLookup
    writer: GroupCommit
    pace: QueuePace
    guard: StorageGuard
    room: QueueBytes
    figures: AcceptFigures
    wakes: Wakes
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    async def accept(self, request: InvocationRequest, reply: str = "") -> Accepted:
        """Accept an invocation. `reply` is the inbox that gets its result.

        Raises:
            PayloadTooLargeError: it is larger than the function allows.
            InvocationConflictError: its ID belongs to another request.
            ResultExpiredError: its ID was used in the last two minutes, and the result has expired already.
            QueueLimitError: the queue is full.
            ResultStorageFullError: there is no room for its result.
            QueueUnavailableError: NATS is away, or has no queue for the function yet.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        with self.figures.counted():
            accepted = await self._accept(request, reply)
        self.figures.accepted(loop.time() - began, is_duplicate=accepted.is_duplicate)
        return accepted

    async def _accept(self, request: InvocationRequest, reply: str) -> Accepted:
        function = request.function
        key = InvocationKey(
            function.metadata.namespace,
            function.metadata.name,
            request.own_id or make_invocation_id(function.key, secrets.token_hex(12)),
        )
        record = _record(request, reply)
        message = OutgoingMessage(queue_subject(key), request.payload, metadata_headers(record), message_id=key.id)
        _check_size(request, message)
        await self.guard.check()
        found = await self._store(key, request, message)
        if isinstance(found, PublishAck):
            self.wakes.send(function.key)
            return Accepted(key, request_id_of(function), request.mode, self.now(), found.sequence)
        return self._known(key, request, record, found)

    async def _store(
        self, key: InvocationKey, request: InvocationRequest, message: OutgoingMessage
    ) -> PublishAck | StoredRequest | EndedInvocation:
        """The acknowledgement of a new request, or what is stored under its ID."""
        what, is_repeated = f"invocation {key.id}", False
        deadline = asyncio.get_running_loop().time() + _PATIENCE_SECONDS
        while True:
            try:
                return await self._try_to_store(key, request, message, is_repeated=is_repeated)
            except BusUnavailableError as error:
                is_repeated = is_repeated or isinstance(error, OutcomeUnknownError)
                if not is_repeated or not await self._is_back(deadline):
                    cause = OutcomeUnknownError(str(error)) if is_repeated else error
                    raise as_service_error(cause, what) from error
            except QueueFullError as error:
                raise await self._queue_full(request, what) from error
            except (BusError, MessageError) as error:
                raise as_service_error(error, what) from error

    async def _try_to_store(
        self, key: InvocationKey, request: InvocationRequest, message: OutgoingMessage, *, is_repeated: bool
    ) -> PublishAck | StoredRequest | EndedInvocation:
        known = await self.lookup.accepted(key) if request.own_id or is_repeated else None
        if known is not None:
            return known
        if not await self.room.take(request.function, len(message.body)):
            raise QueueFullError(f"{message.subject}: the queue has its maximum of bytes")
        with suppress(SubjectTakenError):
            ack = await self.writer.publish(function_stream(key.function_key), message)
            if not ack.duplicate:
                return ack
        known = await self.lookup.accepted(key)
        if known is None:
            raise ResultExpiredError(
                f"invocation {key.id}: the ID was used within the last two minutes, and the result of that invocation"
                " has expired; use another ID, or the same one two minutes later"
            )
        return known

    async def _is_back(self, deadline: float) -> bool:
        """Whether NATS is connected, or connects again before the deadline."""
        try:
            async with asyncio.timeout_at(deadline):
                await asyncio.sleep(_PAUSE_SECONDS)
                await self.bus.wait_connected()
        except TimeoutError:
            return False
        return True

    def _known(
        self,
        key: InvocationKey,
        request: InvocationRequest,
        record: QueuedInvocation,
        found: StoredRequest | EndedInvocation,
    ) -> Accepted:
        if found.record.request_hash != record.request_hash:
            raise InvocationConflictError(
                f"invocation {key.id}: the ID was used for another request to function"
                f" {request_id_of(request.function)}; expected the same payload, content type, headers and attributes"
            )
        sequence = found.sequence if isinstance(found, StoredRequest) else None
        # An ID that was generated here is known from an attempt of this call, whose answer was lost.
        known = found if request.own_id else None
        return Accepted(key, request_id_of(request.function), request.mode, _accepted_at(found), sequence, known)

    async def _queue_full(self, request: InvocationRequest, what: str) -> QueueLimitError:
        limits = request.function.spec.invocation
        seconds = await self.pace.seconds_until_room(request.function.key, limits.max_queued)
        return QueueLimitError(
            f"{what}: the queue of function {request_id_of(request.function)} is full: at most {limits.max_queued}"
            f" invocations and {limits.max_queued_bytes} bytes wait",
            seconds,
        )


def _record(request: InvocationRequest, reply: str) -> QueuedInvocation:
    digest = request_hash(
        request.payload,
        content_type=request.content_type,
        headers=request.headers,
        attributes=request.attributes,
    )
    longest = request.function.spec.invocation.timeout_seconds
    return QueuedInvocation(
        digest,
        mode=request.mode.value,
        content_type=request.content_type,
        headers=request.headers,
        attributes=request.attributes,
        timeout_millis=1000 * min(request.timeout_seconds, longest),
        reply=reply,
        traceparent=request.traceparent,
    )


def _check_size(request: InvocationRequest, message: OutgoingMessage) -> None:
    name, most = request_id_of(request.function), _bytes(request.function.spec.invocation.max_request_bytes)
    if len(request.payload) > most:
        raise PayloadTooLargeError(
            f"payload: expected at most {most} bytes, which is maxRequestBytes of function {name}, got"
            f" {len(request.payload)}"
        )
    size = sum(map(len, message.headers.values()))
    if size > HEADER_BYTES - _OTHER_HEADERS:
        raise PayloadTooLargeError(
            f"headers and attributes: expected at most {HEADER_BYTES - _OTHER_HEADERS} bytes as JSON, got {size}"
        )


def _accepted_at(found: StoredRequest | EndedInvocation) -> datetime:
    if isinstance(found, StoredRequest):
        return found.time
    with suppress(ValueError):
        return datetime.fromisoformat(found.record.accepted_at)
    return found.time
