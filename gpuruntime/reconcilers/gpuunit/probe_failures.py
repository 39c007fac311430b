"""Failed readiness probes, from the events of the kubelet.

A pod's status says only that it is not ready. What the probe answered is in an event `Unhealthy`, and nowhere else.
Such events are watched, not read when needed: the API server keeps no cache of events, so that every list reads those
of the whole namespace from etcd. A watch costs one such list, and then what kubelets report: at most 25 events a pod,
then one in five minutes.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from attrs import frozen

from gpuruntime.control import Cache, Change, Informer, by_field, projected
from gpuruntime.kube.builtin.events import Event

__all__ = ["BY_POD", "ProbeFailure", "answer_changed", "latest_answer", "summarize_event", "watch_probe_failures"]

BY_POD: Final = by_field("regarding.name")
_SELECTED: Final = "reason=Unhealthy,regarding.kind=Pod"
_PREFIX: Final = "Readiness probe "
_VERBS: Final = ("failed: ", "errored and resulted in unknown state: ", "errored: ")


@frozen
class ProbeFailure:
    """A failed probe: the pod, the answer, and when it was given last. The answer is "" for other kinds of probes."""

    pod: str
    answer: str = ""
    at: str = ""


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


def watch_probe_failures(cache: Cache, namespaces: Iterable[str] = ()) -> Informer[ProbeFailure]:
    """The failed probes of these namespaces; none is all of them."""
    return cache.informer(
        projected(Event.KIND, summarize_event), namespaces=tuple(namespaces), fields=_SELECTED, indexes=[BY_POD]
    )


def answer_changed(change: Change[ProbeFailure]) -> bool:
    """A predicate: there is another answer. The same answer again is no news."""
    after = change.after
    return after is not None and bool(after.answer) and (change.before is None or change.before.answer != after.answer)


def latest_answer(failures: Iterable[ProbeFailure], since: str) -> str:
    """What the probe of a pod answered last, "" if there was no answer since this time."""
    # Some times have fractions of a second.
    whole = len("2026-01-01T00:00:00")
    answers = [failure for failure in failures if failure.answer and failure.at[:whole] >= since[:whole]]
    return max(answers, key=lambda failure: (failure.at, failure.answer)).answer if answers else ""


def _answer(note: str) -> str:
    if not note.startswith(_PREFIX):
        return ""
    words = note.removeprefix(_PREFIX)
    verb = next((verb for verb in _VERBS if words.startswith(verb)), "")
    return words.removeprefix(verb).strip()
