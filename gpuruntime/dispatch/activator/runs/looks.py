"""Deliveries that do not simply run: those that were delivered before, that waited too long, or that cannot be read."""

import logging
from typing import Final

from attrs import frozen

from gpuruntime.api.invocations import (
    METADATA_HEADER,
    FailureClass,
    InvocationKey,
    InvocationState,
    MessageError,
    QueuedInvocation,
    key_of_subject,
)
from gpuruntime.bus import BusError, Delivery
from gpuruntime.dispatch.activator.runs.commits import Commits, Request
from gpuruntime.dispatch.activator.runs.endings import End, end_unstarted
from gpuruntime.dispatch.activator.runs.limits import DEFAULT_LIMITS, RunLimits
from gpuruntime.dispatch.activator.runs.redelivery import Redeliveries
from gpuruntime.dispatch.activator.runs.verdicts import Act, Verdict, decide
from gpuruntime.dispatch.activator.server_clock import ServerClock

__all__ = ["Looks", "request_of"]

_LOG: Final = logging.getLogger(__name__)


@frozen
class Looks:
    """Decides what becomes of a delivery, and ends what ends without a run."""

    commits: Commits
    redeliveries: Redeliveries
    clock: ServerClock

    async def look(
        self, key: InvocationKey, queued: QueuedInvocation, delivery: Delivery, limits: RunLimits
    ) -> int | None:
        """The number of the attempt if the delivery should run; None if it should not, for whatever reason."""
        try:
            sighting, ended = await self.redeliveries.look(key, delivery)
            verdict = decide(sighting, limits.max_attempts, retries_lost=limits.retries_lost)
            if verdict.act is Act.RUN:
                return verdict.attempt
            if verdict.act is Act.END:
                await self._end(key, queued, delivery, limits, verdict)
            elif ended is not None:
                self.commits.acknowledge(delivery.ack_subject)
                self.commits.answer(queued.reply, ended.record, ended.body)
        except BusError as error:
            # Nothing is known: it stays pending, and is delivered again.
            _LOG.debug("delivery is left pending", extra={"invocation": str(key), "error": str(error)})
        except MessageError as error:
            _LOG.error("stored result cannot be read", extra={"invocation": str(key), "error": str(error)})
            self.commits.acknowledge(delivery.ack_subject)
        return None

    async def end_expired(
        self, key: InvocationKey, queued: QueuedInvocation, delivery: Delivery, limits: RunLimits
    ) -> None:
        """End an invocation that waited longer than it may.

        Raises:
            BusError: NATS cannot take it now.
        """
        end = end_unstarted(
            InvocationState.EXPIRED,
            FailureClass.QUEUE_TIMEOUT,
            f"no worker took it within {limits.queue_ttl_of(queued).total_seconds():g} s",
            accepted=delivery.time,
            now=self.clock.now(),
            result_ttl_millis=limits.result_ttl_millis,
            queued=queued,
        )
        await self._commit(key, end, delivery, queued.reply, limits)

    async def end_malformed(self, delivery: Delivery, error: str) -> None:
        """End an invocation whose message cannot be read: it would be delivered for ever.

        Raises:
            BusError: NATS cannot take it now.
        """
        _LOG.error(
            "queued message cannot be read",
            extra={"subject": delivery.subject, "sequence": delivery.stream_sequence, "error": error},
        )
        try:
            key = key_of_subject(delivery.subject)
        except ValueError:
            self.commits.acknowledge(delivery.ack_subject)
            return
        end = end_unstarted(
            InvocationState.DEAD_LETTERED,
            FailureClass.MALFORMED_MESSAGE,
            f"the queued message cannot be read: {error}",
            accepted=delivery.time,
            now=self.clock.now(),
            result_ttl_millis=DEFAULT_LIMITS.result_ttl_millis,
        )
        await self._commit(key, end, delivery, "", DEFAULT_LIMITS)

    async def _end(
        self, key: InvocationKey, queued: QueuedInvocation, delivery: Delivery, limits: RunLimits, verdict: Verdict
    ) -> None:
        assert verdict.state is not None  # noqa: S101 - an end has both
        assert verdict.failure_class is not None  # noqa: S101
        end = end_unstarted(
            verdict.state,
            verdict.failure_class,
            f"the worker of attempt {verdict.attempt} was lost, and no attempt is left",
            accepted=delivery.time,
            now=self.clock.now(),
            result_ttl_millis=limits.result_ttl_millis,
            queued=queued,
            attempt=verdict.attempt,
        )
        await self._commit(key, end, delivery, queued.reply, limits)

    async def _commit(self, key: InvocationKey, end: End, delivery: Delivery, reply: str, limits: RunLimits) -> None:
        request = request_of(delivery, limits)
        await self.commits.end(key, end, ack_subject=delivery.ack_subject, reply=reply, request=request)


def request_of(message: Delivery, limits: RunLimits) -> Request:
    """The request of a delivery, to be kept as a letter."""
    return Request(message.body, message.headers.get(METADATA_HEADER, ""), limits.dead_letter_seconds)
