"""The event recorder: Kubernetes Events, as shown by `kubectl describe` and `kubectl events`.

::

    recorder = Recorder(client, controller="example.org/widgets", instance="widgets-7d4f9-x2lkp")
    recorder.record(widget, "Warning", "NoSpace", "Schedule", "no node has room for 3 GPUs")

The service account needs `create` and `patch` on events of events.k8s.io, and `patch` on events of the core group: only
there can the note of an event be changed.
"""

import asyncio
import logging
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from random import Random
from typing import Final

from gpuruntime.aio.lru import LRU
from gpuruntime.control.events.correlator import DropCause, EventCorrelator, EventCounters
from gpuruntime.control.events.delivery import EventDelivery, EventWriter
from gpuruntime.control.events.series import EventType, Occurrence, truncate
from gpuruntime.kube.builtin.events import ObjectReference
from gpuruntime.meta import KubeObject, is_dns_subdomain

__all__ = ["Recorder"]

_LOG = logging.getLogger(__name__)

_WORKERS: Final = 8
_SWEEP_SECONDS: Final = 30.0
_FLUSH_SECONDS: Final = 2.0
_INSTANCE_LIMIT: Final = 128
_ERRORS_KEPT: Final = 256
_ERROR_LIMIT: Final = 512
_QUALIFIED: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]")


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Recorder:
    """Records events of one controller; `run` delivers them.

    Flow:
        `record` may be called at any time, even before `run`. The owner of the task that runs `run`, usually the
        manager, cancels it last, so that events recorded during shutdown are delivered, too.

    Guarantees:
        `record` never blocks, awaits or raises, whatever its arguments and the state of the server.

        Occurrences that differ only in the note are one event with a count and the newest note. See `Series` for when
        it is updated. If more than 10 distinct notes came within 10 minutes, they are aggregated into one "combined
        from similar events", and so are occurrences with different related objects.

        The spam filter allows an object 25 event writes in a burst, and one more every 5 minutes. One write may take
        several requests if the server fails or has lost the event. Beyond that, a new event is dropped, and an
        occurrence of an existing event is only counted.

        Memory and the number of concurrent requests are bounded. When `run` is cancelled, recorded events are delivered
        for at most 2 seconds; events recorded later are silently dropped. `counters` counts everything dropped.

    Assumptions:
        All calls come from the thread of the loop that runs `run`.

    Caveats:
        Events are best effort. Time is that of `now`: if the wall clock is set back, updates are delayed by as much.
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
        """`controller` is a qualified name such as "example.org/widgets"; `instance` identifies the replica.

        Raises:
            ValueError: the server would refuse events with this controller or instance.
        """
        prefix, slash, name = controller.rpartition("/")
        if (slash and not is_dns_subdomain(prefix)) or not _QUALIFIED.fullmatch(name):
            raise ValueError(f"expected a controller such as 'example.org/widgets' or 'widgets', got {controller!r}")
        if not instance:
            raise ValueError(
                f"expected an instance for controller {controller!r}, such as the name of its pod, got none"
            )
        self.counters = EventCounters()
        self._now = now
        random = random or Random()
        self._correlator = EventCorrelator(self.counters, random)
        self._delivery = EventDelivery(
            client,
            self._correlator,
            self.counters,
            controller=controller,
            instance=truncate(instance, _INSTANCE_LIMIT),
            now=now,
            random=random,
        )
        self._is_started = False
        self._is_stopped = False
        self._logged: LRU[str, bool] = LRU(_ERRORS_KEPT)

    @property
    def depth(self) -> int:
        """The number of queued events."""
        return self._correlator.depth

    def record(
        self,
        regarding: KubeObject | ObjectReference,
        type_: EventType,
        reason: str,
        action: str,
        note: str,
        related: KubeObject | ObjectReference | None = None,
    ) -> None:
        """Record an event about an object.

        `reason` says why in CamelCase ("NoSpace"), `action` what the controller did or tried ("Schedule"), `note` is
        human-readable. Reasons and actions are truncated to 128 bytes, notes to 1024. An invalid event, such as one
        without a reason, is logged once and dropped.
        """
        if self._is_stopped:
            self.counters.dropped[DropCause.STOPPED] += 1
            return
        try:
            self._correlator.observe(Occurrence.of(regarding, type_, reason, action, note, related, self._now()))
        except Exception as error:  # noqa: BLE001 - recording an event must never fail a reconcile
            self.counters.dropped[DropCause.INVALID] += 1
            self._log_once(repr(error)[:_ERROR_LIMIT])

    async def run(self) -> None:
        """Deliver recorded events until cancelled.

        Raises:
            RuntimeError: `run` was called before.
        """
        if self._is_started:
            raise RuntimeError("the event recorder was started before: create another one")
        self._is_started = True
        async with asyncio.TaskGroup() as group:
            for _ in range(_WORKERS):
                group.create_task(self._delivery.work())
            group.create_task(self._sweep())
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                # The workers still run: only this block was cancelled, and the group cancels them after it.
                await self._stop()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            self._correlator.sweep(self._now().timestamp())

    async def flush(self) -> None:
        """Deliver all recorded events, due or not, for at most 2 seconds. Needs a running `run`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_FLUSH_SECONDS):
                await self._correlator.flush(self._now().timestamp())

    async def _stop(self) -> None:
        self._is_stopped = True
        self._delivery.stop_retrying()
        try:
            await self.flush()
        finally:
            self.counters.dropped[DropCause.STOPPED] += self._correlator.pending()

    def _log_once(self, error: str) -> None:
        if error not in self._logged:
            _LOG.warning("dropping invalid event", extra={"error": error})
        self._logged.put(error, True)
