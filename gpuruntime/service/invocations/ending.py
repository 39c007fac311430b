"""Ends invocations from the API: cancelled by a caller, or expired in the queue.

::

    expired only: request to DLQ ──> result, create-only ──> purge of the queue, core `cancel` ──> reply

Each step can be repeated, and a process that dies between two leaves an invocation that the next caller, or the
activator that gets the request, finishes: see the table of `gpuruntime.service.invocations`.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from attrs import frozen

from gpuruntime.api.gpufunction import FunctionInvocation, GPUFunction
from gpuruntime.api.invocations import (
    FailureClass,
    InvocationKey,
    InvocationState,
    ResultRecord,
    cancel_subject,
    dead_letter_subject,
    function_stream,
    metadata_headers,
    queue_subject,
)
from gpuruntime.bus import Bus, BusUnavailableError, StreamMissingError, SubjectTakenError
from gpuruntime.meta import format_micros
from gpuruntime.service.invocations.lookup import InvocationRun, StoredRequest
from gpuruntime.service.invocations.results import Committed, ResultLog

__all__ = ["InvocationEnding", "cancelled_record", "expired_record"]

_DEFAULTS: Final = FunctionInvocation()


def cancelled_record(
    request: StoredRequest, run: InvocationRun | None, function: GPUFunction | None, now: datetime
) -> ResultRecord:
    """The end of an invocation that its caller cancels, while it waits or runs."""
    return _record(
        request,
        InvocationState.CANCELLED,
        FailureClass.CANCELLED_BY_CALLER,
        "cancelled by its caller",
        run,
        function,
        now,
    )


def expired_record(request: StoredRequest, function: GPUFunction | None, now: datetime) -> ResultRecord:
    """The end of an invocation that waited too long."""
    return _record(
        request,
        InvocationState.EXPIRED,
        FailureClass.QUEUE_TIMEOUT,
        "no worker took it within the time that the queue keeps requests",
        None,
        function,
        now,
    )


@frozen
class InvocationEnding:
    """Writes ends. `now` is only for the times in records."""

    bus: Bus
    results: ResultLog
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    async def cancel(
        self, request: StoredRequest, run: InvocationRun | None, function: GPUFunction | None
    ) -> Committed:
        """Cancel an invocation; returns the end that counts, which is another one if it ended meanwhile.

        Raises:
            BusError: NATS does not answer, or refuses.
            MessageError: the stored result cannot be read.
        """
        committed = await self.results.commit(request.key, cancelled_record(request, run, function, self.now()))
        await self.clear(request.key)
        if committed.won:
            self._reply(request, committed)
        return committed

    async def expire(self, request: StoredRequest, function: GPUFunction | None) -> Committed:
        """End an invocation that waited too long; returns the end that counts.

        Raises:
            BusError: NATS does not answer, or refuses.
            MessageError: the stored result cannot be read.
        """
        record = expired_record(request, function, self.now())
        limits = _DEFAULTS if function is None else function.spec.invocation
        with suppress(SubjectTakenError, StreamMissingError):
            await self.bus.jetstream.publish(
                dead_letter_subject(request.key),
                request.body,
                metadata_headers(request.record),
                expect_last_subject_sequence=0,
                ttl=limits.dead_letter_ttl_seconds,
            )
        committed = await self.results.commit(request.key, record)
        await self.clear(request.key)
        if committed.won:
            self._reply(request, committed)
        return committed

    async def clear(self, key: InvocationKey) -> None:
        """Take the request of an ended invocation out of the queue, and have its run stopped. It can be repeated.

        Raises:
            BusError: NATS does not answer, or refuses.
        """
        with suppress(StreamMissingError):
            await self.bus.jetstream.purge(function_stream(key.function_key), queue_subject(key))
        self.bus.send(cancel_subject(key))

    def _reply(self, request: StoredRequest, committed: Committed) -> None:
        """Give the result to a caller who waits. One who gets none reads it."""
        if request.record.reply:
            with suppress(BusUnavailableError):
                self.bus.send(request.record.reply, committed.body, metadata_headers(committed.record))


def _record(
    request: StoredRequest,
    state: InvocationState,
    failure: FailureClass,
    error: str,
    run: InvocationRun | None,
    function: GPUFunction | None,
    now: datetime,
) -> ResultRecord:
    limits = _DEFAULTS if function is None else function.spec.invocation
    started = None if run is None else _started(run)
    return ResultRecord(
        state.value,
        request_hash=request.record.request_hash,
        mode=request.record.mode,
        failure_class=failure.value,
        error=error,
        attempt=0 if run is None else run.record.attempt,
        worker="" if run is None else run.record.worker,
        worker_namespace="" if run is None else request.key.namespace,
        accepted_at=format_micros(request.time),
        started_at="" if run is None else run.record.started_at,
        ended_at=format_micros(now),
        delay_millis=_millis((started or now) - request.time),
        execution_millis=0 if started is None else _millis(now - started),
        result_ttl_millis=limits.result_ttl_seconds * 1000,
    )


def _started(run: InvocationRun) -> datetime | None:
    try:
        found = datetime.fromisoformat(run.record.started_at)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def _millis(time: timedelta) -> int:
    """Clocks of two processes may differ: no time is negative."""
    return max(0, int(time.total_seconds() * 1000))
