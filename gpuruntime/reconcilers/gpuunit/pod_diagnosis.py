"""Why a pod is not ready, in one reason and one sentence. Pure.

The rules give the same answer while the cause is the same: a container in a crash loop is terminated, waits, and runs
for a moment, and reads the same in all three. See `uptime` for when it counts as up again.
"""

import re
from datetime import datetime
from typing import Final

from attrs import frozen

from gpuruntime.api.reasons import (
    CRASH_LOOPING,
    IMAGE_PULL_FAILED,
    NODE_LOST,
    OUT_OF_MEMORY,
    POD_STARTUP_FAILED,
    SECURITY_PROFILE_UNMET,
    UNSCHEDULABLE,
)
from gpuruntime.reconcilers.gpuunit.uptime import ending_of, ends_in_a_row, missing_uptime, required_uptime
from gpuruntime.reconcilers.pod_summary import ContainerSummary, Ending, PodSummary
from gpuruntime.reconcilers.quoting import beginning_of, end_of
from gpuruntime.service.reads.informers import NodeSummary

__all__ = ["Failure", "PodDiagnosis", "diagnose_pod", "node_failure"]

_STARTING: Final = frozenset({"", "ContainerCreating", "PodInitializing"})
_PULLING: Final = frozenset(
    {
        *("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"),
        *("RegistryUnavailable", "SignatureValidationFailed"),
    }
)
_OUT_OF_MEMORY: Final = "OOMKilled"
_NOT_STARTED: Final = frozenset({"StartError", "ContainerCannotRun"})
_BACK_OFF: Final = "CrashLoopBackOff"
# With these reasons a container waits because of its last end; others are about the start to come.
_AFTER_AN_END: Final = frozenset({*_STARTING, _BACK_OFF, "RunContainerError"})
_BAD_CONFIG: Final = "CreateContainerConfigError"
_NOT_ROOT: Final = "runAsNonRoot"
_NOT_ROOT_HINT: Final = "use an image whose USER is a number other than 0, or ask for securityProfile: Baseline"
# One end may be an accident; a container that ended twice in a row is in a loop.
_LOOP: Final = 2
# The kubelet alternates between the error and its back-off, which quotes the error: both are to read the same.
_QUOTED_PULL_ERROR: Final = re.compile(r'Back-off pulling image "[^"]*": \w+: ')


@frozen
class Failure:
    """A reason of `api.reasons`, and a sentence that names the pod, container or node and quotes its message."""

    reason: str
    message: str


@frozen
class PodDiagnosis:
    """How a pod is: failed, or on its way, as `progress` says.

    `is_down` means that a container has ended and has not been up for long enough since; in `recheck_seconds` it has,
    if it stays up.
    """

    failure: Failure | None
    progress: str
    is_down: bool = False
    recheck_seconds: float | None = None


def diagnose_pod(pod: PodSummary, *, min_ready_seconds: float, probe_answer: str, now: datetime) -> PodDiagnosis:
    """Why the pod is not ready, or how far it has come.

    The first of these counts: a pod that failed as a whole, one that no node takes, the first init container in
    trouble, the first container in trouble. `probe_answer` is what its failing readiness probe answered last.
    """
    if pod.phase == "Failed" and (pod.reason or pod.message):
        words = ": ".join(part for part in (pod.reason, pod.message) if part)
        return PodDiagnosis(Failure(POD_STARTUP_FAILED, f"Pod {pod.name}: {beginning_of(words)}"), "")
    if pod.unscheduled and not pod.nominated:
        words = beginning_of(pod.unscheduled)
        return PodDiagnosis(Failure(UNSCHEDULABLE, f"Pod {pod.name} is not scheduled: {words}"), "")
    found = (_container_diagnosis(pod, container, min_ready_seconds, now) for container in pod.containers)
    in_trouble = next((diagnosis for diagnosis in found if diagnosis is not None), None)
    return in_trouble or PodDiagnosis(None, _progress(pod, min_ready_seconds, probe_answer))


def node_failure(pod: PodSummary, node: NodeSummary | None) -> Failure | None:
    """The failure of the pod's node; `node` is None if it is not in the cache.

    A pod that is about to start may be on a node so new that it is not cached yet; one that runs may not.
    """
    if not pod.node or (node is None and pod.phase != "Running") or (node is not None and node.is_ready):
        return None
    if node is None:
        return Failure(NODE_LOST, f"Pod {pod.name}: its node {pod.node} is gone from the cluster")
    words = ": ".join(part for part in (node.reason, node.message) if part) or "it was never heard of"
    return Failure(NODE_LOST, f"Pod {pod.name}: its node {pod.node} is not ready: {beginning_of(words)}")


def _progress(pod: PodSummary, min_ready_seconds: float, probe_answer: str) -> str:
    """How far the start of a pod without failures has come."""
    if not pod.node:
        room = f"Waiting for the room that pod {pod.name} gets on node {pod.nominated}."
        return room if pod.nominated else f"Waiting for pod {pod.name} to be scheduled."
    if not pod.started_at:
        return f"Pod {pod.name} is on node {pod.node}; waiting for its containers to start."
    place = f"Pod {pod.name} runs on node {pod.node}"
    if pod.is_ready and min_ready_seconds:
        return f"{place}; waiting until it has been ready for {min_ready_seconds:g} s."
    if probe_answer:
        return f"{place}; its readiness probe fails: {beginning_of(probe_answer)}"
    return f"{place}; waiting for it to be ready."


def _container_diagnosis(
    pod: PodSummary, container: ContainerSummary, min_ready_seconds: float, now: datetime
) -> PodDiagnosis | None:
    # An init container that is ready has done its work.
    if container.is_init and container.is_ready:
        return None
    place = f"Pod {pod.name} {'init container' if container.is_init else 'container'} {container.name}"
    ending = ending_of(container)
    if ending is None or container.waiting_reason not in _AFTER_AN_END:
        return _waiting(place, container)
    if container.is_init and not ending.is_failure:
        return None
    missing = missing_uptime(container, min_ready_seconds, now)
    if container.started_at and not missing:
        return None
    return _ended(place, container, ending, min_ready_seconds, missing if container.started_at else None)


def _waiting(place: str, container: ContainerSummary) -> PodDiagnosis | None:
    """A container that waits for something else than its last end."""
    waiting, words = container.waiting_reason, container.waiting_message
    if waiting in _STARTING:
        return None
    reason, hint = CRASH_LOOPING if waiting == _BACK_OFF else POD_STARTUP_FAILED, ""
    if waiting in _PULLING:
        reason, words = IMAGE_PULL_FAILED, _QUOTED_PULL_ERROR.sub("", words)
    elif waiting == _BAD_CONFIG and _NOT_ROOT in words:
        reason, hint = SECURITY_PROFILE_UNMET, f"; {_NOT_ROOT_HINT}"
    return PodDiagnosis(Failure(reason, f"{place}: {beginning_of(words or waiting)}{hint}"), "")


def _ended(
    place: str, container: ContainerSummary, ending: Ending, min_ready_seconds: float, missing: float | None
) -> PodDiagnosis:
    """A container that ended, and was restarted too short a time ago or not at all.

    The words are the ones of its end in all states: the kubelet has others for each state.
    """
    if ending.reason in _NOT_STARTED:
        failure = Failure(POD_STARTUP_FAILED, f"{place}: {beginning_of(ending.message or ending.reason)}")
        return PodDiagnosis(failure, "", is_down=True, recheck_seconds=missing)
    ends, required = ends_in_a_row(container), required_uptime(container, min_ready_seconds)
    count = "ended once" if ends == 1 else f"ended {ends} times"
    sentence = f"{place}: {_last_words(ending)} ({count}; ready when it has run for {required:g} s)"
    if ending.reason == _OUT_OF_MEMORY:
        return PodDiagnosis(Failure(OUT_OF_MEMORY, sentence), "", is_down=True, recheck_seconds=missing)
    if ends >= _LOOP:
        return PodDiagnosis(Failure(CRASH_LOOPING, sentence), "", is_down=True, recheck_seconds=missing)
    return PodDiagnosis(None, sentence, is_down=True, recheck_seconds=missing)


def _last_words(ending: Ending) -> str:
    said = end_of(ending.message)
    quoted = f": {said}" if said else ""
    if ending.reason == _OUT_OF_MEMORY:
        return f"killed because it needed more memory than it has{quoted}"
    if not ending.is_failure:
        return f"it ends without an error (exit code 0), but has to go on running{quoted}"
    if ending.exit_code:
        return f"exit code {ending.exit_code}{quoted}"
    return f"terminated by signal {ending.signal}{quoted}"
