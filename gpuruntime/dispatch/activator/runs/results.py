"""The results of workers: each becomes the end of its invocation, once.

=============================  ========================================================================================
NATS cannot take it now        tried again while the worker is connected, which keeps a copy; else it brings the copy
                               to any activator
the worker sends it twice      the second one is dropped while the first is under way, and has won afterwards
the run was brought from       its request is read first: if that is gone and there is no result, the result has
another activator, or lasted   expired, and this one comes too late
longer than results are kept
it failed                      its request is read first, to be kept as a letter
=============================  ========================================================================================
"""

import asyncio
import logging
from typing import Final

from attrs import frozen

from gpuruntime.api.invocations import (
    METADATA_HEADER,
    MessageError,
    QueuedInvocation,
    queue_subject,
    read_queued,
)
from gpuruntime.bus import Bus, BusError, StoredMessage, StreamMissingError
from gpuruntime.dispatch.activator.figures import DispatchFigures
from gpuruntime.dispatch.activator.runs.commits import Commits, Request
from gpuruntime.dispatch.activator.runs.endings import RunFacts, end_of_run
from gpuruntime.dispatch.activator.server_clock import ServerClock
from gpuruntime.dispatch.activator.settings import DispatchSettings
from gpuruntime.dispatch.activator.workers.worker import HeldRun
from gpuruntime.dispatch.protocol import RunResult

__all__ = ["ResultCommits"]

_LOG: Final = logging.getLogger(__name__)
_LONGEST_RETRY: Final = 5.0


@frozen
class ResultCommits:
    """Commits what workers return."""

    bus: Bus
    commits: Commits
    clock: ServerClock
    figures: DispatchFigures
    settings: DispatchSettings

    async def commit(self, run: HeldRun, frame: RunResult, body: bytes) -> bool | None:
        """Whether the result counts; None if NATS did not take it before the worker left."""
        loop = asyncio.get_running_loop()
        began, pause = loop.time(), self.settings.retry
        while True:
            try:
                won = await self._commit(run, frame, body)
            except BusError as error:
                if not run.worker.is_open:
                    return None
                extra = {"invocation": str(run.lease.key), "error": str(error)}
                _LOG.warning("result cannot be stored now, will retry", extra=extra)
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_RETRY)
            else:
                self.figures.commit.observe(loop.time() - began)
                self.figures.run.observe(frame.execution_millis / 1000)
                return won

    async def _commit(self, run: HeldRun, frame: RunResult, body: bytes) -> bool:
        lease, queued = run.lease, run.queued
        is_late = self._may_be_late(run)
        request: Request | None = None
        if is_late or queued is None or frame.state != "succeeded":
            message = await self._request(run)
            if message is not None:
                metadata = message.headers.get(METADATA_HEADER, "")
                request = Request(message.body, metadata, run.limits.dead_letter_seconds)
                queued = queued or _read(message)
            elif is_late:
                known = await self.commits.results.get(lease.key)
                if known is None:
                    _LOG.warning("result comes after the invocation's result has expired", extra=_about(run))
                    return False
                # It is compared with the stored one, which may be this very result, brought before.
                queued = QueuedInvocation(known.record.request_hash, known.record.mode)
        facts = RunFacts(
            lease.key,
            lease.attempt,
            run.worker.identity.unit,
            lease.accepted,
            queued or QueuedInvocation(request_hash=""),
            run.limits,
        )
        end = end_of_run(frame, body, facts, self.clock.now())
        committed = await self.commits.end(
            lease.key, end, ack_subject=lease.ack_subject, reply=facts.queued.reply, request=request
        )
        return committed.won

    def _may_be_late(self, run: HeldRun) -> bool:
        """Whether another end may have been stored and have expired since this run was last looked at."""
        since = asyncio.get_running_loop().time() - run.checked
        return run.is_adopted or run.has_ended or since * 1000 >= run.limits.result_ttl_millis

    async def _request(self, run: HeldRun) -> StoredMessage | None:
        """The queued message of a run, from the leader; None if it is gone: the invocation has ended."""
        try:
            found = await self.bus.jetstream.last_message(run.lease.stream, queue_subject(run.lease.key))
        except StreamMissingError:
            return None
        return found if found is not None and found.sequence == run.lease.sequence else None


def _read(message: StoredMessage) -> QueuedInvocation | None:
    try:
        return read_queued(message.headers)
    except MessageError:
        return None


def _about(run: HeldRun) -> dict[str, str]:
    return {"invocation": str(run.lease.key), "worker": run.worker.identity.unit}
