"""Summaries of pods: what explains why a unit is not ready, which volumes they use, and nothing else.

Five thousand whole pods take 100 MB; their summaries take 5 MB. Two equal summaries mean that nothing relevant changed.
"""

from collections.abc import Mapping
from typing import Any, Final

from attrs import frozen

from gpuruntime.api.names import STORAGE_ACCESSOR_LABEL, STORAGE_PREPARE_LABEL, UNIT_LABEL
from gpuruntime.desired.storage.volume_use import VolumeUse, uses_of_pod
from gpuruntime.meta import parse_timestamp

__all__ = ["ContainerSummary", "Ending", "PodSummary", "summarize_pod"]

Raw = Mapping[str, Any]
_OVER: Final = frozenset({"Succeeded", "Failed"})
# A container that could not be started "began" at this time.
_NEVER: Final = "1970-01-01T00:00:00Z"


@frozen
class Ending:
    """How a container ended, and for how many seconds it had run: 0 if it could not be started."""

    exit_code: int
    signal: int = 0
    reason: str = ""
    message: str = ""
    seconds: float = 0.0

    @property
    def is_failure(self) -> bool:
        return self.exit_code != 0 or self.signal != 0


@frozen
class ContainerSummary:
    """A container: waiting, running (`started_at` is set) or ended, and how it ended the time before."""

    name: str
    is_init: bool = False
    is_ready: bool = False
    restarts: int = 0
    waiting_reason: str = ""
    waiting_message: str = ""
    started_at: str = ""
    ended: Ending | None = None
    ended_before: Ending | None = None


@frozen
class PodSummary:
    """A pod. Times are RFC 3339 texts, "" where there is none. `controller` is the name of what controls it.

    `unscheduled` has the scheduler's words while it finds no node. `nominated` is the node that makes room for it.
    `accessor` is the storage that it is an accessor of, and `prepares` the one that it prepares, "" if it is none.
    """

    name: str
    namespace: str = ""
    unit: str = ""
    controller: str = ""
    created_at: str = ""
    is_ending: bool = False
    node: str = ""
    phase: str = ""
    reason: str = ""
    message: str = ""
    scheduled_at: str = ""
    unscheduled: str = ""
    is_ready: bool = False
    ready_at: str = ""
    containers: tuple[ContainerSummary, ...] = ()
    nominated: str = ""
    volumes: tuple[VolumeUse, ...] = ()
    accessor: str = ""
    prepares: str = ""

    @property
    def is_over(self) -> bool:
        """Whether its containers have ended and none will start again: it uses no volume any more."""
        return self.phase in _OVER

    @property
    def started_at(self) -> str:
        """When the last of its containers started; "" unless all of them run."""
        mains = [container for container in self.containers if not container.is_init]
        times = [container.started_at for container in mains]
        return max(times) if times and all(times) else ""


def summarize_pod(raw: Raw) -> PodSummary:
    """The summary of a pod as it is on the wire."""
    metadata, status = raw["metadata"], raw.get("status") or {}
    owners, labels = metadata.get("ownerReferences") or (), metadata.get("labels") or {}
    conditions = {condition["type"]: condition for condition in status.get("conditions") or ()}
    scheduled, ready = conditions.get("PodScheduled") or {}, conditions.get("Ready") or {}
    return PodSummary(
        name=metadata["name"],
        namespace=metadata.get("namespace") or "",
        unit=labels.get(UNIT_LABEL, ""),
        controller=next((owner["name"] for owner in owners if owner.get("controller")), ""),
        created_at=metadata.get("creationTimestamp") or "",
        is_ending="deletionTimestamp" in metadata,
        node=(raw.get("spec") or {}).get("nodeName") or "",
        phase=status.get("phase") or "",
        reason=status.get("reason") or "",
        message=status.get("message") or "",
        scheduled_at=_since(scheduled),
        unscheduled=_words(scheduled) if scheduled.get("status") == "False" else "",
        is_ready=ready.get("status") == "True",
        ready_at=_since(ready),
        containers=(
            *(_container(item, is_init=True) for item in status.get("initContainerStatuses") or ()),
            *(_container(item, is_init=False) for item in status.get("containerStatuses") or ()),
        ),
        nominated=status.get("nominatedNodeName") or "",
        volumes=uses_of_pod(raw.get("spec") or {}),
        accessor=labels.get(STORAGE_ACCESSOR_LABEL, ""),
        prepares=labels.get(STORAGE_PREPARE_LABEL, ""),
    )


def _container(raw: Raw, *, is_init: bool) -> ContainerSummary:
    state = raw.get("state") or {}
    waiting, running = state.get("waiting") or {}, state.get("running") or {}
    return ContainerSummary(
        name=raw["name"],
        is_init=is_init,
        is_ready=bool(raw.get("ready")),
        restarts=raw.get("restartCount") or 0,
        waiting_reason=waiting.get("reason") or "",
        waiting_message=waiting.get("message") or "",
        started_at=running.get("startedAt") or "",
        ended=_ending(state),
        ended_before=_ending(raw.get("lastState") or {}),
    )


def _ending(state: Raw) -> Ending | None:
    terminated = state.get("terminated")
    if terminated is None:
        return None
    return Ending(
        exit_code=terminated.get("exitCode") or 0,
        signal=terminated.get("signal") or 0,
        reason=terminated.get("reason") or "",
        message=terminated.get("message") or "",
        seconds=_lifetime(terminated),
    )


def _lifetime(terminated: Raw) -> float:
    began, ended = terminated.get("startedAt") or _NEVER, terminated.get("finishedAt") or _NEVER
    if _NEVER in (began, ended):
        return 0.0
    return max(0.0, (parse_timestamp(ended) - parse_timestamp(began)).total_seconds())


def _since(condition: Raw) -> str:
    """Since when a condition is true, "" while it is not."""
    return condition.get("lastTransitionTime") or "" if condition.get("status") == "True" else ""


def _words(condition: Raw) -> str:
    return condition.get("message") or condition.get("reason") or "no reason given"
