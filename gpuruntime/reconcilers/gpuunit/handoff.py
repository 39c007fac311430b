"""The room of a claimed unit: its pod gets what the stock pod frees, and preempts nothing. Pure.

::

    Deployment with a PriorityClass that never preempts ──> pod ── fits somewhere? ── yes ──> bound
                                                                      │ no
    nominatedNodeName of the pod = the node of the stock pod ──> the stock unit is deleted, its pod ends ──> bound

The pod of a claimed unit is there before the stock pod ends, so that it is first in line when that happens. The
scheduler keeps the room on a nominated node free of pods with a lower or equal priority: of pending stock, of cold
starts and of other claims. So neither does this pod wait in vain nor does it preempt.

If a process dies, or the stock is not what the provenance says:

    before the Deployment is created      the next controller manager creates it. Pending stock may have taken the room
                                          meanwhile: the hand-off is over after `ROOM_SECONDS`
    before the pod is nominated           the next controller manager nominates it, if the stock pod is still there
    before the stock unit is deleted      the pod waits. The API, or the claim reconciler, deletes the stock unit; that
                                          takes less than `HANDOFF_SECONDS`
    the stock was deleted before, or      no pod can be nominated for its room; the hand-off is over after
    never existed                         `ROOM_SECONDS`
    the node of the stock pod is lost,    the hand-off is over after `HANDOFF_SECONDS`
    and the stock pod does not end

When a hand-off is over, a pod that still has no node is replaced by one that may preempt idle stock, like that of a
cold start. A pod with a node is left alone, whatever its PriorityClass. That of its successor, on another node or for
another spec, may preempt: a unit that has run is not held up by stock.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Self

from attrs import frozen

from gpuruntime.desired.provenance import Provenance
from gpuruntime.kube.builtin.apps import Deployment
from gpuruntime.meta import parse_timestamp
from gpuruntime.reconcilers.pod_summary import PodSummary

__all__ = ["HANDOFF_SECONDS", "ROOM_SECONDS", "Handoff", "TakenStock"]

HANDOFF_SECONDS: Final = 60.0
"""The longest time that a pod waits for the end of a stock pod. Another replica notices after 15 s that one died, and
the garbage collector finds the children of a kind that was just defined after 30 s."""
ROOM_SECONDS: Final = 10.0
"""The longest time that a pod waits if the stock pod is gone: the scheduler retries at least that often."""


@frozen
class TakenStock:
    """What is left of the stock unit that an active unit took over: whether the unit is there, and its pods."""

    source: Provenance
    is_there: bool = False
    pods: tuple[PodSummary, ...] = ()

    @property
    def is_gone(self) -> bool:
        return not self.is_there and not self.pods

    @property
    def node(self) -> str:
        """The node whose room the stock has or frees, "" if it has none."""
        return min((pod.node for pod in self.pods if pod.node), default="")


@frozen
class Handoff:
    """The hand-off of one active unit.

    `seconds_left` is 0 when it is over. `pod` is the pod of the active unit that no node takes, None if there is none.
    `node` is the one to nominate for that pod, "" for none.
    """

    seconds_left: float = 0.0
    pod: PodSummary | None = None
    node: str = ""

    @property
    def is_under_way(self) -> bool:
        return self.seconds_left > 0

    @classmethod
    def of(
        cls, taken: TakenStock | None, deployment: Deployment | None, pods: Sequence[PodSummary], now: datetime
    ) -> Self:
        """The hand-off of a unit, from what is left of its stock, its Deployment and its pods.

        `taken` is None for a unit that took over no stock: its hand-off is over.
        """
        waiting = [pod for pod in pods if pod.unscheduled and not pod.node and not pod.is_ending]
        pod = max(waiting, key=lambda pod: (pod.created_at, pod.name), default=None)
        if taken is None:
            return cls(pod=pod)
        limit = ROOM_SECONDS if taken.is_gone else HANDOFF_SECONDS
        created = None if deployment is None else deployment.metadata.creation_timestamp
        age = 0.0 if created is None else (now - parse_timestamp(created)).total_seconds()
        left = max(limit - age, 0.0)
        return cls(left, pod, taken.node if left and pod is not None and not pod.nominated else "")

    def is_stranded(self, deployment: Deployment | None, claimed_priority_class: str) -> bool:
        """Whether a Deployment is to be rendered anew: no node takes its pod, and the hand-off is over."""
        if self.is_under_way or self.pod is None or deployment is None:
            return False
        return deployment.spec.template.spec.priority_class_name == claimed_priority_class
