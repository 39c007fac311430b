"""One function at this activator: its workers, a pull for their free slots, and what becomes of each delivery.

No function waits behind another: each has a pull and a task of its own. A delivery is asked for only when a slot is
free for it.

=============================  ========================================================================================
the last worker leaves         credit is taken back; what the server has sent by then goes back to the queue, unstarted
the function is paused, or     the same, with workers
being deleted
the stream or the consumer is  asked for again every half second while there are workers: the leader makes both
missing
NATS is lost and found         leases are extended first, then the pull asks anew. Deliveries that were in the queue
                               then are looked at before they run, first ones too: a server that was killed forgets
                               its last deliveries
a message cannot be read       dead_lettered, malformed_message
=============================  ========================================================================================
"""

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final

from attrs import frozen

from gpuruntime.api.gpufunction import GPUFunction
from gpuruntime.api.invocations import (
    WORKERS_CONSUMER,
    InvocationKey,
    MessageError,
    QueuedInvocation,
    function_stream,
    key_of_subject,
    read_queued,
)
from gpuruntime.bus import Bus, BusError, Delivery, Pull
from gpuruntime.dispatch.activator.figures import DispatchFigures, FunctionSlots
from gpuruntime.dispatch.activator.leases.held import HeldRuns
from gpuruntime.dispatch.activator.leases.shared_key import SharedKey
from gpuruntime.dispatch.activator.runs.limits import DEFAULT_LIMITS, RunLimits, limits_of
from gpuruntime.dispatch.activator.runs.looks import Looks
from gpuruntime.dispatch.activator.runs.redelivery import Redeliveries
from gpuruntime.dispatch.activator.runs.starting import Starter
from gpuruntime.dispatch.activator.server_clock import ServerClock
from gpuruntime.dispatch.activator.settings import DispatchSettings
from gpuruntime.dispatch.activator.work import Work
from gpuruntime.dispatch.activator.workers.choice import choose
from gpuruntime.dispatch.activator.workers.worker import Worker
from gpuruntime.meta import ObjectKey

__all__ = ["DispatchParts", "FunctionQueue"]

_LOG: Final = logging.getLogger(__name__)
_MOST_DOUBTS: Final = 256
"""First deliveries that are looked at after a reconnect: more than a server forgets when it is killed."""


@frozen
class DispatchParts:
    """What all functions of an activator share."""

    bus: Bus
    key: SharedKey
    held: HeldRuns
    starter: Starter
    looks: Looks
    redeliveries: Redeliveries
    clock: ServerClock
    figures: DispatchFigures
    work: Work
    settings: DispatchSettings


class FunctionQueue:
    """Dispatches the invocations of a function to its workers here.

    Guarantees:
        - Deliveries wanted, under way and being looked at are never more than free slots, except after a slot was lost.
        - A delivery runs at most once here, and one that was delivered before only after all activators were asked.
    """

    def __init__(self, key: ObjectKey, parts: DispatchParts, function: GPUFunction | None) -> None:
        self.key = key
        self.limits: RunLimits = DEFAULT_LIMITS
        self.workers: dict[str, Worker] = {}
        """By the UID of the pod, the one that was chosen last at the end."""
        self._parts = parts
        self._function: GPUFunction | None = None
        self._is_known = asyncio.Event()
        self._pull: Pull | None = None
        self._granted = 0
        self._looking = 0
        self._doubts = 0
        self._doubtful_until: int | None = 0
        self._is_changing = False
        self._problem = ""
        self.set_function(function)

    def set_function(self, function: GPUFunction | None) -> None:
        """Take the function as the cache has it now."""
        self._function = function
        if function is None:
            self._is_known.clear()
        else:
            self.limits = limits_of(function)
            self._is_known.set()
        self.slots_changed()

    @property
    def slots(self) -> FunctionSlots:
        """The figures of its workers."""
        workers = self.workers.values()
        return FunctionSlots(len(workers), sum(each.slots for each in workers), sum(each.running for each in workers))

    def slots_changed(self) -> None:
        """Ask for as many deliveries as there are free slots, or take credit back: once for all changes of a turn of
        the event loop.
        """
        if not self._is_changing:
            self._is_changing = True
            asyncio.get_running_loop().call_soon(self._set_credit)

    def _set_credit(self) -> None:
        self._is_changing = False
        pull = self._pull
        if pull is None:
            return
        free = 0 if self._is_closed else sum(worker.free for worker in self.workers.values())
        missing = max(0, free - self._looking) - self._granted
        if missing > 0:
            self._granted += missing
            pull.add_credit(missing)
        elif missing < 0:
            # What has arrived and is not read yet cannot be taken back.
            before = pull.credit
            pull.set_credit(max(0, before + missing))
            self._granted -= before - pull.credit

    async def run(self) -> None:
        """Dispatch until cancelled. Then nothing more is started, and what came goes back."""
        parts = self._parts
        with parts.bus.on_connected(self._doubt):
            while True:
                await self._is_known.wait()
                await parts.key.known()
                await parts.bus.wait_connected()
                try:
                    async with parts.bus.jetstream.pull(function_stream(self.key), WORKERS_CONSUMER) as pull:
                        await self._read(pull)
                except BusError as error:
                    if self._problem != str(error):
                        self._problem = str(error)
                        extra = {"function": str(self.key), "error": self._problem}
                        _LOG.warning("queue cannot be read, will retry", extra=extra)
                await asyncio.sleep(parts.settings.retry)

    async def _read(self, pull: Pull) -> None:
        self._pull, self._granted = pull, 0
        try:
            self.slots_changed()
            async for delivery in pull:
                self._problem = ""
                self._granted -= 1
                try:
                    self._take(delivery)
                except Exception:  # noqa: BLE001 - see below
                    # One message must not end the dispatch of all others. It is delivered again.
                    _LOG.exception("delivery failed", extra={"subject": delivery.subject})
                    self.slots_changed()
        except asyncio.CancelledError:
            await self._wind_up(pull)
            raise
        finally:
            self._pull = None

    async def _wind_up(self, pull: Pull) -> None:
        """Give back what the server had sent when the credit was taken back."""
        pull.set_credit(0)
        with suppress(BusError, TimeoutError):
            async with asyncio.timeout(self._parts.settings.ask):
                await self._parts.bus.settled(self._parts.settings.ask)
        with suppress(BusError, TimeoutError):
            while True:
                async with asyncio.timeout(0):
                    delivery = await anext(pull)
                self._give_back(delivery)

    @property
    def _is_closed(self) -> bool:
        function = self._function
        return function is None or function.spec.paused or function.metadata.deletion_timestamp is not None

    def _take(self, delivery: Delivery) -> None:
        parts = self._parts
        try:
            key = key_of_subject(delivery.subject)
            queued = read_queued(delivery.headers)
        except (MessageError, ValueError) as error:
            self._looking += 1
            parts.work.start(self._end(parts.looks.end_malformed(delivery, str(error))), "malformed message")
            return
        if parts.held.get(key) is not None:
            # A worker of ours has it, and goes on extending it.
            parts.figures.redelivered += delivery.delivery_count > 1
            self.slots_changed()
        elif delivery.delivery_count > 1 or self._is_doubtful(delivery):
            parts.figures.redelivered += delivery.delivery_count > 1
            self._looking += 1
            parts.work.start(self._look(key, queued, delivery), f"redelivery of {key}")
        elif parts.clock.now() - delivery.time >= self.limits.queue_ttl_of(queued):
            self._looking += 1
            expired = parts.looks.end_expired(key, queued, delivery, self.limits)
            parts.work.start(self._end(expired), f"expiry of {key}")
        else:
            self._start(key, queued, delivery, 1)

    def _start(self, key: InvocationKey, queued: QueuedInvocation, delivery: Delivery, attempt: int) -> None:
        signer = self._parts.key.signer
        worker = choose(self.workers.values(), self._revision) if signer is not None and not self._is_closed else None
        if worker is None or signer is None:
            # Its slot was lost since the credit was given.
            self._give_back(delivery)
            return
        uid = worker.identity.pod_uid
        self.workers[uid] = self.workers.pop(uid)
        self._parts.starter.start(signer, worker, key, queued, delivery, attempt, self.limits)

    @property
    def _revision(self) -> str | None:
        return None if self._function is None else self._function.status.revision

    def _give_back(self, delivery: Delivery) -> None:
        parts = self._parts
        try:
            key = key_of_subject(delivery.subject)
        except ValueError:
            return  # it comes again, and is ended then
        parts.figures.given_back += 1
        back = parts.redeliveries.give_back(key, delivery.stream_sequence, delivery.ack_subject)
        parts.work.start(back, f"giving back {key}")

    async def _look(self, key: InvocationKey, queued: QueuedInvocation, delivery: Delivery) -> None:
        try:
            attempt = await self._parts.looks.look(key, queued, delivery, self.limits)
        finally:
            self._looking -= 1
        if attempt is not None and self._parts.held.get(key) is None:
            self._start(key, queued, delivery, attempt)
        self.slots_changed()

    async def _end(self, ending: Coroutine[Any, Any, None]) -> None:
        """End an invocation that is not started; the slot that was meant for it is free again."""
        try:
            await ending
        except BusError as error:
            # It is delivered again.
            _LOG.warning("invocation cannot be ended now", extra={"function": str(self.key), "error": str(error)})
        finally:
            self._looking -= 1
            self.slots_changed()

    def _doubt(self) -> None:
        """After a reconnect: what waits now may have been delivered before, though the server has forgotten that."""
        if self._parts.bus.connects > 1:
            self._doubts, self._doubtful_until = _MOST_DOUBTS, None
            self._parts.work.start(self._read_last_sequence(), f"last sequence of {self.key}")

    async def _read_last_sequence(self) -> None:
        with suppress(BusError):
            info = await self._parts.bus.jetstream.stream_info(function_stream(self.key))
            self._doubtful_until = 0 if info is None else info.last_sequence

    def _is_doubtful(self, delivery: Delivery) -> bool:
        last = self._doubtful_until
        if self._doubts == 0 or (last is not None and delivery.stream_sequence > last):
            return False
        self._doubts -= 1
        return True
