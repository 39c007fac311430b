"""The use cases of invocations, for the API: invoke, call, look, read the result, cancel, list."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from attrs import frozen

from gpuruntime.api.invocations import (
    INVOCATION_ID,
    Archive,
    ArchivedInvocation,
    ArchivePage,
    ArchiveQuery,
    InvocationKey,
    InvocationState,
    MessageError,
    generated_for,
    is_invocation_id,
    read_result,
)
from gpuruntime.api.invocations import ArchiveUnavailableError as StoreAwayError
from gpuruntime.bus import Bus, BusUnavailableError, ExpectedReply, Message
from gpuruntime.meta import ObjectKey
from gpuruntime.service.errors import (
    ArchiveUnavailableError,
    InvocationEndedError,
    ObjectNotFoundError,
    QueueUnavailableError,
    ResultExpiredError,
)
from gpuruntime.service.invocations.accept import Accepted, Accepting, InvocationRequest
from gpuruntime.service.invocations.ending import InvocationEnding
from gpuruntime.service.invocations.figures import AcceptFigures
from gpuruntime.service.invocations.functions import Functions
from gpuruntime.service.invocations.group_commit import GroupCommit
from gpuruntime.service.invocations.listing import OpenPage, QueueListing
from gpuruntime.service.invocations.lookup import InvocationLookup
from gpuruntime.service.invocations.pace import QueuePace
from gpuruntime.service.invocations.queue_bytes import QueueBytes
from gpuruntime.service.invocations.queue_errors import queue_errors
from gpuruntime.service.invocations.results import EndedInvocation, ResultLog
from gpuruntime.service.invocations.status import InvocationStatuses, OpenInvocation
from gpuruntime.service.invocations.storage_guard import StorageGuard
from gpuruntime.service.invocations.wakes import Wakes

__all__ = ["Called", "InvocationService", "QueueUseCases"]

Status = OpenInvocation | EndedInvocation | ArchivedInvocation

_READ_AGAIN_SECONDS: Final = 5.0
_SHOWN: Final = 128
_NO_ARCHIVE: Final = "lists of ended invocations need the result store: it is not configured (resultStore.url)"


@frozen
class Called:
    """A synchronous call: what was accepted, and how it ended; None if the time was over before."""

    accepted: Accepted
    ended: EndedInvocation | None


@frozen
class QueueUseCases:
    """The parts that need NATS."""

    bus: Bus
    results: ResultLog
    lookup: InvocationLookup
    writer: GroupCommit
    pace: QueuePace
    ending: InvocationEnding
    accepting: Accepting
    statuses: InvocationStatuses
    listing: QueueListing

    @classmethod
    def of(
        cls, bus: Bus, functions: Functions, archive: Archive | None, figures: AcceptFigures | None = None
    ) -> "QueueUseCases":
        """The use cases over a bus. `writer.run` has to run for batches."""
        counted = figures or AcceptFigures()
        results = ResultLog(bus)
        lookup, pace = InvocationLookup(bus, results), QueuePace(bus.jetstream)
        writer = GroupCommit(bus.jetstream, counted.batches.observe)
        ending = InvocationEnding(bus, results)
        guard, room = StorageGuard(bus.jetstream), QueueBytes(bus.jetstream)
        accepting = Accepting(bus, lookup, writer, pace, guard, room, counted, Wakes(bus))
        statuses = InvocationStatuses(bus, lookup, ending, archive, functions.of, counted)
        return cls(bus, results, lookup, writer, pace, ending, accepting, statuses, QueueListing(bus, lookup))


@frozen
class InvocationService:
    """Invocations of functions. Without `queue`, NATS is not configured, and without `archive` the result store."""

    functions: Functions
    queue: QueueUseCases | None = None
    archive: Archive | None = None

    async def invoke(self, request: InvocationRequest) -> Accepted:
        """Accept an invocation.

        Raises:
            ServiceError: see `Accepting.accept`.
        """
        return await self._queue.accepting.accept(request)

    async def call(self, request: InvocationRequest, within: float) -> Called:
        """Accept an invocation, and wait for its result. One that was accepted before is waited for as well.

        Raises:
            ServiceError: see `Accepting.accept`.
        """
        queue, loop = self._queue, asyncio.get_running_loop()
        deadline = loop.time() + within
        with queue.bus.expect_reply() as expected:
            accepted = await queue.accepting.accept(request, expected.subject)
            if isinstance(accepted.known, EndedInvocation):
                return Called(accepted, accepted.known)
            with queue_errors(f"invocation {accepted.key.id}"):
                if accepted.known is None:
                    return Called(accepted, await _replied(queue.results, accepted.key, expected, deadline))
                # The reply goes to the replica that stored it.
                return Called(accepted, await queue.results.wait(accepted.key, deadline - loop.time()))

    def key(self, invocation_id: str, request_id: str | None = None, namespace: str | None = None) -> InvocationKey:
        """The identity of an invocation that a caller names.

        Raises:
            ObjectNotFoundError: its function is not known, or no invocation can have the ID.
        """
        # The ID becomes part of subjects: "*" and ">" would be those of other invocations.
        if not is_invocation_id(invocation_id):
            raise ObjectNotFoundError(
                f"invocation {invocation_id[:_SHOWN]}: there is none, an ID has {INVOCATION_ID.description}"
            )
        if request_id is not None:
            function = self.functions.key_of(request_id, namespace)
            return InvocationKey(function.namespace, function.name, invocation_id)
        found = [
            key for key in self.functions.candidates(invocation_id) if namespace is None or key.namespace == namespace
        ]
        if len(found) == 1:
            return InvocationKey(found[0].namespace, found[0].name, invocation_id)
        if generated_for(invocation_id) is None:
            raise ObjectNotFoundError(
                f"invocation {invocation_id}: not an ID that the API generated; name its function with"
                " ?serverlessRequestID="
            )
        raise ObjectNotFoundError(
            f"invocation {invocation_id}: its function is not known; name it with ?serverlessRequestID="
        )

    async def status(self, key: InvocationKey, wait: float = 0.0) -> Status:
        """The state of an invocation, after at most `wait` seconds if it has not ended.

        Raises:
            ObjectNotFoundError: there is none, or it ended so long ago that nothing knows it.
            QueueUnavailableError: NATS is away.
        """
        statuses = self._queue.statuses
        with queue_errors(f"invocation {key.id}"):
            found = await (statuses.wait(key, wait) if wait else statuses.get(key))
        if found is None:
            raise ObjectNotFoundError(
                f"invocation {key.id}: not found among those of function {self.functions.request_id(key.function_key)}"
            )
        return found

    async def result(self, key: InvocationKey) -> OpenInvocation | EndedInvocation:
        """The result of an invocation, or its state if it has not ended.

        Raises:
            ObjectNotFoundError: there is none.
            ResultExpiredError: it has ended, and its result has expired.
            QueueUnavailableError: NATS is away.
        """
        found = await self.status(key)
        if not isinstance(found, ArchivedInvocation):
            return found
        body = None if found.is_expired or self.archive is None else await self._archived_body(key, self.archive)
        if body is None:
            raise ResultExpiredError(f"invocation {key.id}: it {found.record.state}, and its result has expired")
        return EndedInvocation(key, found.record, body, 0, datetime.fromisoformat(found.ended_at))

    async def cancel(self, key: InvocationKey) -> EndedInvocation | ArchivedInvocation:
        """Cancel an invocation that waits or runs. One that was cancelled before is cancelled.

        Raises:
            ObjectNotFoundError: there is none.
            InvocationEndedError: it has ended otherwise.
            QueueUnavailableError: NATS is away.
        """
        queue = self._queue
        found = await self.status(key)
        with queue_errors(f"invocation {key.id}"):
            if isinstance(found, OpenInvocation):
                committed = await queue.ending.cancel(found.request, found.run, self.functions.of(key))
                queue.statuses.figures.cancelled += committed.won
                found = EndedInvocation(key, committed.record, committed.body, 0, datetime.now(UTC))
            elif isinstance(found, EndedInvocation) and found.record.state == InvocationState.CANCELLED:
                # Who wrote this result may have died before the next step.
                await queue.ending.clear(key)
        if found.record.state != InvocationState.CANCELLED:
            raise InvocationEndedError(f"invocation {key.id}: it has ended before as {found.record.state}")
        return found

    async def place(self, accepted: Accepted) -> int | None:
        """An upper bound of the place in the queue of what was just accepted; None if it is not known."""
        if accepted.sequence is None:
            return None
        return await self._queue.pace.place(accepted.key.function_key, accepted.sequence)

    async def list_open(self, function: ObjectKey, state: InvocationState, limit: int, start: int) -> OpenPage:
        """A page of invocations of a function that are queued, or that run, the oldest first.

        Raises:
            QueueUnavailableError: NATS is away, or has no queue for the function.
        """
        known = self.functions.informer.store.get(function)
        with queue_errors(f"function {function.name}"):
            return await self._queue.listing.page(function, known, state, limit, start)

    async def list_ended(self, query: ArchiveQuery) -> ArchivePage:
        """A page of invocations that have ended, the newest first.

        Raises:
            ArchiveCursorError: the cursor is not one of this query.
            ArchiveUnavailableError: the result store is not configured, or away.
        """
        if self.archive is None:
            raise ArchiveUnavailableError(_NO_ARCHIVE)
        try:
            return await self.archive.list(query)
        except StoreAwayError as error:
            raise ArchiveUnavailableError(str(error)) from error

    async def _archived_body(self, key: InvocationKey, archive: Archive) -> bytes | None:
        try:
            return await archive.body(key)
        except StoreAwayError as error:
            raise ArchiveUnavailableError(str(error)) from error

    @property
    def _queue(self) -> QueueUseCases:
        if self.queue is None:
            raise QueueUnavailableError("invocations need NATS: it is not configured (serverless.nats.urls)")
        return self.queue


async def _replied(
    results: ResultLog, key: InvocationKey, expected: ExpectedReply, deadline: float
) -> EndedInvocation | None:
    """The result, as it is sent to the inbox of this process, or as it is stored. None if the time is over.

    A reply is lost with a connection, or with the activator that would have sent it: now and then the result is read.
    """
    loop = asyncio.get_running_loop()
    while (left := deadline - loop.time()) > 0:
        try:
            async with asyncio.timeout(min(left, _READ_AGAIN_SECONDS)):
                return _ended(key, await expected.wait())
        except MessageError:
            return await results.wait(key, left)
        except TimeoutError:
            pass
        with suppress(BusUnavailableError):
            found = await results.get(key)
            if found is not None:
                return found
    return None


def _ended(key: InvocationKey, reply: Message) -> EndedInvocation:
    return EndedInvocation(key, read_result(reply.headers), reply.body, 0, datetime.now(UTC))
