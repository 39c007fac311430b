"""The pods that use the volumes of storages, in words, and what a change of one of them concerns."""

from collections.abc import Iterable
from typing import Final

from gpuruntime.control import Change
from gpuruntime.meta import ObjectKey
from gpuruntime.reconcilers.pod_summary import ContainerSummary, PodSummary
from gpuruntime.reconcilers.quoting import beginning_of, end_of

__all__ = ["described", "storages_of_change", "trouble_of", "volumes_concerned"]

_STARTING: Final = frozenset({"ContainerCreating", "PodInitializing"})
_NAMED: Final = 3


def described(pods: Iterable[PodSummary]) -> str:
    """Some of the pods by name, and how many more there are; "" if there are none."""
    names = [pod.name for pod in pods]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{'pod' if len(names) == 1 else 'pods'} {', '.join(names[:_NAMED])}{more}" if names else ""


def storages_of_change(change: Change[PodSummary]) -> Iterable[ObjectKey]:
    """The storages that a change of a pod concerns, see `volumes_concerned`."""
    claims = volumes_concerned(change.before, change.after)
    return [ObjectKey(change.key.namespace, claim) for claim in claims]


def volumes_concerned(before: PodSummary | None, after: PodSummary | None) -> tuple[str, ...]:
    """The PersistentVolumeClaims that a pod uses before and after a change; none if nothing relevant changed.

    Relevant are the volumes, whether the pod is over, and the trouble of a pod that prepares: the steps of a unit's
    start concern no storage.
    """
    if _relevant(before) == _relevant(after):
        return ()
    states = [state for state in (before, after) if state is not None]
    return tuple(dict.fromkeys(use.claim for state in states for use in state.volumes))


def trouble_of(pod: PodSummary) -> str:
    """Why a pod failed, or what it waits for; "" if nothing is wrong."""
    if pod.phase == "Failed" and pod.reason:
        return f"Pod {pod.name}: {beginning_of(': '.join(filter(None, (pod.reason, pod.message))))}"
    if pod.unscheduled:
        return f"Pod {pod.name} is not scheduled: {beginning_of(pod.unscheduled)}"
    return next(filter(None, (_trouble(pod.name, container) for container in pod.containers)), "")


def _relevant(pod: PodSummary | None) -> tuple[object, ...] | None:
    if pod is None or not pod.volumes:
        return None
    return (pod.volumes, pod.is_over, trouble_of(pod) if pod.prepares else "")


def _trouble(pod: str, container: ContainerSummary) -> str:
    place = f"Pod {pod} container {container.name}"
    if container.waiting_reason and container.waiting_reason not in _STARTING:
        words = ": ".join(filter(None, (container.waiting_reason, container.waiting_message)))
        return f"{place}: {beginning_of(words)}"
    if container.ended is not None and container.ended.is_failure:
        said = end_of(container.ended.message)
        return f"{place}: exit code {container.ended.exit_code}{': ' if said else ''}{said}"
    return ""
