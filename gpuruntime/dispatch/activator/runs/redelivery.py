"""What is known of a delivery that is not the first one: no such delivery runs unasked.

An outage of NATS that is longer than the lease puts everything that runs on the queue of redeliveries, from which an
extension takes nothing back. So the activator looks for a result, at the leader, and asks all others whether a live
worker of theirs has it. After a reconnect it goes on asking until the others have had the time to reconnect too.

A delivery that goes back before a worker had it is no attempt. Before it is given back, the number of such deliveries
is stored in RUN, in memory: if NATS loses it, an attempt too many is counted.
"""

import asyncio
import logging
from contextlib import suppress
from typing import Final

from gpuruntime.api.invocations import RUNS_STREAM, InvocationKey, lease_subject, run_subject
from gpuruntime.bus import (
    Bus,
    BusError,
    BusTimeoutError,
    BusUnavailableError,
    Delivery,
    NoRespondersError,
    StreamMissingError,
)
from gpuruntime.dispatch.activator.runs.verdicts import Sighting
from gpuruntime.dispatch.activator.settings import DispatchSettings
from gpuruntime.service.invocations.results import EndedInvocation, ResultLog

__all__ = ["Redeliveries"]

_LOG: Final = logging.getLogger(__name__)


class Redeliveries:
    """Looks at deliveries, and gives them back."""

    def __init__(self, bus: Bus, results: ResultLog, settings: DispatchSettings) -> None:
        self._bus = bus
        self._results = results
        self._settings = settings
        self._connected_at = float("-inf")

    def note_connect(self) -> None:
        """The connection was made just now."""
        if self._bus.connects > 1:
            self._connected_at = asyncio.get_running_loop().time()

    async def look(self, key: InvocationKey, delivery: Delivery) -> tuple[Sighting, EndedInvocation | None]:
        """What is known of a delivery, and its result if there is one.

        Raises:
            BusError: NATS was lost meanwhile: nothing is known, and the delivery comes again.
            MessageError: the stored result cannot be read.
        """
        count = delivery.delivery_count
        ended = await self._results.get(key)
        if ended is not None:
            return Sighting(count, has_ended=True), ended
        if await self.is_held_elsewhere(key):
            return Sighting(count, is_held=True), None
        # Read again: a holder that had stored the result by the time it was asked does not hold it any more.
        ended = await self._results.get(key)
        if ended is not None:
            return Sighting(count, has_ended=True), ended
        given_back = await self._given_back(key, delivery.stream_sequence) if count > 1 else 0
        return Sighting(count, given_back), None

    async def is_held_elsewhere(self, key: InvocationKey) -> bool:
        """Whether a live worker of any activator has an invocation.

        Raises:
            BusError: NATS was lost meanwhile.
        """
        loop, connects = asyncio.get_running_loop(), self._bus.connects
        while True:
            with suppress(BusTimeoutError, NoRespondersError):
                await self._bus.request(lease_subject(key), timeout=self._settings.ask)
                return True
            if not self._bus.connected or self._bus.connects != connects:
                raise BusUnavailableError("the connection to NATS was lost while other activators were asked")
            if loop.time() >= self._connected_at + self._settings.settle:
                return False

    async def give_back(self, key: InvocationKey, sequence: int, ack_subject: str) -> None:
        """Have a delivery that no worker has started delivered again at once. It counts as no attempt."""
        try:
            count = await self._given_back(key, sequence) + 1
            await self._bus.jetstream.publish(_given_back_subject(key), f"{sequence} {count}".encode())
            await self._bus.nak(ack_subject)
        except BusError as error:
            # It comes again after the consumer's ack_wait, and counts as an attempt.
            _LOG.debug("delivery could not be given back", extra={"invocation": str(key), "error": str(error)})

    async def _given_back(self, key: InvocationKey, sequence: int) -> int:
        try:
            found = await self._bus.jetstream.last_message(RUNS_STREAM, _given_back_subject(key))
        except StreamMissingError:
            return 0
        if found is None:
            return 0
        # An earlier invocation may have had this ID: its message had another sequence.
        of, _, count = found.body.partition(b" ")
        return int(count) if of == str(sequence).encode() and count.isdigit() else 0


def _given_back_subject(key: InvocationKey) -> str:
    return f"{run_subject(key)}.given-back"
