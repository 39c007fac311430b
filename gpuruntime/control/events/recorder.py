"""Telling people what a controller does, by events that `kubectl describe` and `kubectl events` show.

::

    recorder = Recorder(client, controller="example.org/widgets", instance="widgets-7d4f9-x2lkp")
    recorder.record(widget, "Warning", "NoSpace", "Schedule", "no node has room for 3 GPUs")

Its account needs `create` and `patch` on events of events.k8s.io, and `patch` on events of the core group: only there
can the note of an event be changed.
"""

import asyncio
import logging
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from random import Random
from typing import Final

from gpuruntime.control.events.counters import DropCause, EventCounters
from gpuruntime.control.events.delivery import EventDelivery, EventWriter
from gpuruntime.control.events.ledger import EventLedger
from gpuruntime.control.events.occurrence import EventType, Occurrence, cut
from gpuruntime.control.lru import LRU
from gpuruntime.kube.builtin.events import ObjectReference
from gpuruntime.meta import KubeObject, is_dns_subdomain

__all__ = ["Recorder"]

_LOG = logging.getLogger(__name__)

_WORKERS: Final = 8
_SWEEP_SECONDS: Final = 30.0
_FLUSH_SECONDS: Final = 2.0
_INSTANCE_LIMIT: Final = 128
_MISTAKES_KEPT: Final = 256
_MISTAKE_LIMIT: Final = 512
_QUALIFIED: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]")


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Recorder:
    """Records events of one controller; `run` sends them.

    Flow:
        Record at any time, also before `run`. Somebody, the manager as a rule, owns a task with `run`, and cancels it
        as the last thing, so that what others record while they stop is sent, too.

    Guarantees:
        `record` never blocks, awaits or raises, whatever the server does and whatever it is given.

        Occurrences that differ in nothing but the note are one event with a count, which shows the newest note. See
        `Series` for when it is told. If more than 10 different notes came in 10 minutes, the event says that it
        stands for many, and occurrences that are related to different objects become one, too.

        An object causes at most 25 writes of events at once, and one more each 5 minutes. A write may take several
        requests if the server fails or has lost the event. What is above that is dropped, or only counted if there is
        an event to count in.

        Memory is bounded, as is the number of requests at a time. When `run` is cancelled, what is recorded is sent for
        2 seconds at most; what is recorded later is dropped silently. Everything dropped is in `counters`.

    Assumptions:
        One thread, that of the loop of `run`.

    Caveats:
        An event may be lost: it is news, not state. Time is that of `now`; a wall clock that is set back puts off what
        is due by as much.
    """

    def __init__(
        self,
        client: EventWriter,
        *,
        controller: str,
        instance: str,
        now: Callable[[], datetime] = _utc_now,
        random: Random | None = None,
    ) -> None:
        """`controller` is a name as labels have it, such as "example.org/widgets"; `instance` tells replicas apart.

        Raises:
            ValueError: the server would take no event with such a controller or instance.
        """
        prefix, slash, name = controller.rpartition("/")
        if (slash and not is_dns_subdomain(prefix)) or not _QUALIFIED.fullmatch(name):
            raise ValueError(f"expected a controller such as 'example.org/widgets' or 'widgets', got {controller!r}")
        if not instance:
            raise ValueError(
                f"expected an instance of controller {controller!r}, such as the name of its pod, got none"
            )
        self.counters = EventCounters()
        self._now = now
        chance = random or Random()
        self._ledger = EventLedger(self.counters, chance)
        self._delivery = EventDelivery(
            client,
            self._ledger,
            self.counters,
            controller=controller,
            instance=cut(instance, _INSTANCE_LIMIT),
            now=now,
            random=chance,
        )
        self._is_started = False
        self._is_stopped = False
        self._mistakes: LRU[str, bool] = LRU(_MISTAKES_KEPT)

    @property
    def depth(self) -> int:
        """How many events wait to be sent."""
        return self._ledger.depth

    def record(
        self,
        regarding: KubeObject | ObjectReference,
        type_: EventType,
        reason: str,
        action: str,
        note: str,
        related: KubeObject | ObjectReference | None = None,
    ) -> None:
        """Record that something happened to an object.

        `reason` is why, in one word ("NoSpace"), `action` what the controller did or tried ("Schedule"), `note` is for
        people. A reason and an action may have 128 bytes, a note 1024; what is more is cut off. An event that the
        server would refuse, such as one without a reason, is logged once and dropped.
        """
        if self._is_stopped:
            self.counters.dropped[DropCause.STOPPED] += 1
            return
        try:
            self._ledger.observe(Occurrence.of(regarding, type_, reason, action, note, related, self._now()))
        except Exception as error:  # noqa: BLE001 - news about the work must never end the work
            self.counters.dropped[DropCause.INVALID] += 1
            self._log_once(repr(error)[:_MISTAKE_LIMIT])

    async def run(self) -> None:
        """Send what is recorded, until cancelled.

        Raises:
            RuntimeError: the recorder runs, or ran, already.
        """
        if self._is_started:
            raise RuntimeError("the event recorder was started before: make another one")
        self._is_started = True
        async with asyncio.TaskGroup() as group:
            for _ in range(_WORKERS):
                group.create_task(self._delivery.work())
            group.create_task(self._sweep())
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                # The workers are still there: it is this block that was cancelled, and the group ends them after it.
                await self._flush()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            self._ledger.sweep(self._now().timestamp())

    async def flush(self) -> None:
        """Send what is recorded, due or not, for 2 seconds at most. `run` must run."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_FLUSH_SECONDS):
                await self._ledger.settle(self._now().timestamp())

    async def _flush(self) -> None:
        self._is_stopped = True
        self._delivery.hurry()
        try:
            await self.flush()
        finally:
            self.counters.dropped[DropCause.STOPPED] += self._ledger.untold()

    def _log_once(self, mistake: str) -> None:
        if mistake not in self._mistakes:
            _LOG.warning("event dropped, it makes no sense", extra={"error": mistake})
        self._mistakes.put(mistake, True)
