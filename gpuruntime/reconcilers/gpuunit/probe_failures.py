"""What failing readiness probes answered, from the events of the kubelet.

A pod's status says only that it is not ready. What the probe answered is in an event `Unhealthy`, and nowhere else.

The events are listed when a unit needs them, at most once in 15 seconds for all units of a namespace. The API server
has no cache of events: a list of the events of one pod reads those of its whole namespace, so one list for all pods
costs the same; and a quiet watch gets no bookmarks, expires after some minutes and lists again, for ever. This way five
thousand units that start slowly cost four lists a minute, and units that are ready cost none.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from attrs import field, frozen

from gpuruntime.aio import Singleflight
from gpuruntime.kube import Client, KubeError, dynamic
from gpuruntime.kube.builtin.events import Event
from gpuruntime.meta import parse_timestamp
from gpuruntime.reconcilers.pod_summary import PodSummary

__all__ = ["LIST_SECONDS", "ProbeAnswers", "ProbeFailure", "ProbeFailures", "latest_answer", "summarize_event"]

_LOG = logging.getLogger(__name__)
LIST_SECONDS: Final = 15.0
"""The events of a namespace are listed at most once in this time."""

_SELECTED: Final = "reason=Unhealthy,regarding.kind=Pod"
_PREFIX: Final = "Readiness probe "
_VERBS: Final = ("failed: ", "errored and resulted in unknown state: ", "errored: ")
# Most programs with a probe are ready by then, and cost no list.
_START_SECONDS: Final = 3.0
_KNOWN_SECONDS: Final = 60.0
_ERROR_SECONDS: Final = 60.0
# Some times have fractions of a second.
_WHOLE_SECONDS: Final = len("2026-01-01T00:00:00")


@frozen
class ProbeFailure:
    """A failed probe: the pod, the answer, and when it was given last. The answer is "" for other kinds of probes."""

    pod: str
    answer: str = ""
    at: str = ""


@frozen
class ProbeAnswers:
    """What probes answered last, by pod, and the seconds after which to ask again; None if no pod needs an answer."""

    by_pod: Mapping[str, str] = field(factory=dict)
    recheck_seconds: float | None = None


class ProbeFailures:
    """Lists failed readiness probes for pods that run and are not ready.

    Guarantees: at most one list of a namespace in 15 seconds, whatever the number of its pods. Without permission, or
    if the API server fails, there are no answers, and the list is tried again after a minute.
    """

    def __init__(self, client: Client, clock: Callable[[], float]) -> None:
        self._client = client
        self._clock = clock
        self._namespaces: dict[str, _Namespace] = {}

    async def answers(self, namespace: str, pods: Sequence[PodSummary], now: datetime) -> ProbeAnswers:
        """The answers of the probes of a unit's pods; `now` is the time of the cluster."""
        waiting = [pod for pod in pods if pod.started_at and not pod.is_ready and not pod.is_ending]
        if not waiting:
            return ProbeAnswers()
        early = _START_SECONDS - min(_age(pod, now) for pod in waiting)
        if early > 0:
            return ProbeAnswers(recheck_seconds=min(early, _START_SECONDS))
        known = self._namespaces.setdefault(namespace, _Namespace(self._client, namespace, self._clock))
        failures = await known.failures()
        found = {pod.name: latest_answer(failures.get(pod.name, ()), since=pod.started_at) for pod in waiting}
        answered = {name: answer for name, answer in found.items() if answer}
        return ProbeAnswers(answered, _KNOWN_SECONDS if len(answered) == len(waiting) else LIST_SECONDS)


class _Namespace:
    """The failed probes of one namespace, as they were listed last."""

    def __init__(self, client: Client, namespace: str, clock: Callable[[], float]) -> None:
        self._client = client
        self._namespace = namespace
        self._clock = clock
        self._flight: Singleflight[None] = Singleflight(self._list)
        self._next = clock()
        self._failures: dict[str, list[ProbeFailure]] = {}

    async def failures(self) -> Mapping[str, Sequence[ProbeFailure]]:
        if self._clock() >= self._next:
            await self._flight.do()
        return self._failures

    async def _list(self) -> None:
        found: dict[str, list[ProbeFailure]] = {}
        try:
            async for page in self._client.pages(dynamic(Event.KIND), self._namespace, fields=_SELECTED):
                for event in page.items:
                    failure = summarize_event(event.body)
                    found.setdefault(failure.pod, []).append(failure)
        except KubeError as error:
            extra = {"namespace": self._namespace, "error": str(error)}
            _LOG.warning("failed readiness probes cannot be listed", extra=extra)
            self._next = self._clock() + _ERROR_SECONDS
        else:
            self._next = self._clock() + LIST_SECONDS
        self._failures = found


def summarize_event(raw: Mapping[str, Any]) -> ProbeFailure:
    """The summary of an event as it is on the wire."""
    times = (
        (raw.get("series") or {}).get("lastObservedTime"),
        raw.get("deprecatedLastTimestamp"),
        raw.get("eventTime"),
        raw["metadata"].get("creationTimestamp"),
    )
    pod = (raw.get("regarding") or {}).get("name") or ""
    return ProbeFailure(pod, _answer(raw.get("note") or ""), next(filter(None, times), ""))


def latest_answer(failures: Iterable[ProbeFailure], since: str) -> str:
    """What the probe of a pod answered last, "" if there was no answer since this time."""
    answers = [
        failure for failure in failures if failure.answer and failure.at[:_WHOLE_SECONDS] >= since[:_WHOLE_SECONDS]
    ]
    return max(answers, key=lambda failure: (failure.at, failure.answer)).answer if answers else ""


def _age(pod: PodSummary, now: datetime) -> float:
    return (now - parse_timestamp(pod.started_at)).total_seconds()


def _answer(note: str) -> str:
    if not note.startswith(_PREFIX):
        return ""
    words = note.removeprefix(_PREFIX)
    verb = next((verb for verb in _VERBS if words.startswith(verb)), "")
    return words.removeprefix(verb).strip()
