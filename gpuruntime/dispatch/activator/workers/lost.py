"""The runs of workers that were lost: given back as soon as it is certain that their pod has ended, and not before.

A worker that lost its connection may live, and bring its leases to another activator. So nothing is given back then:
the leases are extended no more, and run out after `ack_wait`. A pod that was deleted, or is Failed or
Succeeded, brings nothing.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Final

from attrs import frozen

from gpuruntime.api.invocations import InvocationKey
from gpuruntime.bus import Bus, BusUnavailableError
from gpuruntime.dispatch.activator.sources import PodSource
from gpuruntime.dispatch.activator.workers.worker import Worker

__all__ = ["LostRuns"]

_LOG: Final = logging.getLogger(__name__)


@frozen
class _LostRun:
    key: InvocationKey
    ack_subject: str
    until: float


class LostRuns:
    """Remembers the runs of lost workers for a while. `kept_seconds` is several times the consumers' ack_wait."""

    def __init__(self, bus: Bus, pods: PodSource, clock: Callable[[], float], kept_seconds: float) -> None:
        self._bus = bus
        self._pods = pods
        self._clock = clock
        self._kept_seconds = kept_seconds
        self._by_pod: dict[str, list[_LostRun]] = {}

    def lose(self, worker: Worker) -> None:
        """A worker's connection is lost, with what it had."""
        self._forget_old()
        until = self._clock() + self._kept_seconds
        lost = [_LostRun(run.lease.key, run.lease.ack_subject, until) for run in worker.runs.values()]
        if not lost:
            return
        uid = worker.identity.pod_uid
        if self._has_ended(worker):
            self._give_back(lost)
        else:
            self._by_pod[uid] = lost

    def found(self, pod_uid: str) -> None:
        """The worker is back, here."""
        self._by_pod.pop(pod_uid, None)

    def on_pod_end(self, pod_uid: str) -> None:
        """A pod has ended."""
        self._give_back(self._by_pod.pop(pod_uid, ()))

    def _has_ended(self, worker: Worker) -> bool:
        """Whether the cache shows that the pod has ended. That it is not there yet, says nothing."""
        pod = self._pods.get(worker.identity.pod)
        if pod is None or pod.uid != worker.identity.pod_uid:
            return worker.was_cached
        return pod.has_ended

    def _give_back(self, lost: Iterable[_LostRun]) -> None:
        for run in lost:
            try:
                self._bus.send(run.ack_subject, b"-NAK")
            except BusUnavailableError:
                return  # delivered again after ack_wait
            _LOG.info("run of an ended pod is given back", extra={"invocation": str(run.key)})

    def _forget_old(self) -> None:
        now = self._clock()
        for uid in [uid for uid, runs in self._by_pod.items() if runs[0].until < now]:
            del self._by_pod[uid]
