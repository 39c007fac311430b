"""Whether a unit's Deployment has rolled out and its pod stays up, and if not, why. Pure.

A Deployment status says nothing about the newest template before its controller has observed it, and neither does a pod
of the template before: they must not make a new generation look ready, or failed. And a Deployment can be available
while its container restarts: the pod has the last word.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from attrs import frozen

from gpuruntime.api.reasons import ADMISSION_REFUSED, PROGRESS_DEADLINE_EXCEEDED, QUOTA_EXCEEDED
from gpuruntime.kube.builtin.apps import Deployment
from gpuruntime.meta import find_condition
from gpuruntime.reconcilers.gpuunit.pod_diagnosis import Failure, diagnose_pod, node_failure
from gpuruntime.reconcilers.pod_summary import PodSummary
from gpuruntime.service.reads.informers import NodeSummary

__all__ = ["Rollout", "rollout_of"]

_QUOTA_WORDS: Final = ("exceeded quota", "failed quota")
_RESTRICTED_WORDS: Final = 'violates PodSecurity "restricted'
_RESTRICTED_HINT: Final = "; ask for securityProfile: Restricted, with an image that runs as another user than root"
_DEADLINE: Final = "ProgressDeadlineExceeded"


@frozen
class Rollout:
    """The state of a rollout: complete, failed, or in progress, as `progress` says.

    `pod` is the one that runs the newest template, if there is one. `is_down` means that a container of it has ended
    and has not been up for long enough since. In `recheck_seconds` the answer may be another one without any change.
    """

    is_complete: bool = False
    failure: Failure | None = None
    progress: str = ""
    pod: PodSummary | None = None
    is_down: bool = False
    recheck_seconds: float | None = None


def rollout_of(
    deployment: Deployment,
    pods: Sequence[PodSummary],
    nodes: Mapping[str, NodeSummary],
    answers: Mapping[str, str],
    now: datetime,
) -> Rollout:
    """The rollout of a unit's Deployment.

    `pods` have the label of the unit, `nodes` are the nodes that they are on, by name. `answers` has the last answers
    of failing readiness probes, by pod.

    Pods that only carry the label, and do not belong to a ReplicaSet of the Deployment, say nothing.
    What a pod says comes before what the Deployment says, which is the same at second hand; a deadline that passed
    comes last, because it never says why.
    """
    status = deployment.status
    pods = [pod for pod in pods if pod.controller.startswith(f"{deployment.metadata.name}-")]
    if status.observed_generation < deployment.metadata.generation:
        return Rollout(progress="Waiting for the Deployment to be rolled out.")
    pod = _newest(pods) if status.updated_replicas else None
    if pod is None:
        failure, progress = _before_the_pod(pods, nodes)
        return Rollout(failure=failure or _refusal(deployment) or _lateness(deployment, progress), progress=progress)
    found = diagnose_pod(
        pod,
        min_ready_seconds=float(deployment.spec.min_ready_seconds or 0),
        probe_answer=answers.get(pod.name, ""),
        now=now,
    )
    replaced = status.replicas == status.updated_replicas
    if replaced and status.available_replicas and pod.is_ready and not found.is_down and found.failure is None:
        return Rollout(is_complete=True, pod=pod)
    failure = node_failure(pod, nodes.get(pod.node)) or found.failure
    # The deadline of a rollout says nothing about a pod that ran and ended later.
    failure = failure or _refusal(deployment) or (None if found.is_down else _lateness(deployment, found.progress))
    return Rollout(
        failure=failure,
        progress=found.progress,
        pod=pod,
        is_down=found.is_down,
        recheck_seconds=found.recheck_seconds,
    )


def _newest(pods: Sequence[PodSummary]) -> PodSummary | None:
    """The pod of the newest template: once the Deployment has one, no other pod is made. Those that failed, of this
    template or of earlier ones, stay beside it for a long time.
    """
    staying = [pod for pod in pods if not pod.is_ending]
    return max(staying, key=lambda pod: (pod.created_at, pod.name), default=None)


def _before_the_pod(pods: Sequence[PodSummary], nodes: Mapping[str, NodeSummary]) -> tuple[Failure | None, str]:
    """What the new pod waits for: the old ones have to be gone first, and on a lost node they do not go."""
    ending = sorted((pod for pod in pods if pod.is_ending), key=lambda pod: pod.name)
    failures = (node_failure(pod, nodes.get(pod.node)) for pod in ending)
    failure = next((found for found in failures if found is not None), None)
    return failure, f"Waiting for pod {ending[0].name} to end." if ending else "Waiting for the pod to be made."


def _refusal(deployment: Deployment) -> Failure | None:
    condition = find_condition(deployment.status.conditions, "ReplicaFailure")
    if condition is None or condition.status != "True":
        return None
    words = condition.message or condition.reason
    is_quota = any(marker in words for marker in _QUOTA_WORDS)
    hint = _RESTRICTED_HINT if _RESTRICTED_WORDS in words else ""
    return Failure(QUOTA_EXCEEDED if is_quota else ADMISSION_REFUSED, f"The pod was refused: {words}{hint}")


def _lateness(deployment: Deployment, progress: str) -> Failure | None:
    condition = find_condition(deployment.status.conditions, "Progressing")
    if condition is None or condition.status != "False" or condition.reason != _DEADLINE:
        return None
    seconds = deployment.spec.progress_deadline_seconds
    limit = f"{seconds} s" if seconds else "its deadline"
    return Failure(PROGRESS_DEADLINE_EXCEEDED, f"The rollout takes longer than {limit}. {progress}")
