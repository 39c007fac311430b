"""Why a pod is not ready, in one reason and one sentence. Pure.

The rules look at one state at a time and give the same answer while the cause is the same: a container in a crash loop
runs for a moment each time, and must not look healthy then.
"""

import re
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
from gpuruntime.reconcilers.gpuunit.pod_summary import ContainerSummary, Ending, PodSummary
from gpuruntime.service.reads.informers import NodeSummary

__all__ = ["Failure", "node_failure", "pod_failure", "pod_progress"]

_STARTING: Final = frozenset({"", "ContainerCreating", "PodInitializing"})
_PULLING: Final = frozenset(
    {
        *("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"),
        *("RegistryUnavailable", "SignatureValidationFailed"),
    }
)
_OUT_OF_MEMORY: Final = "OOMKilled"
_BACK_OFF: Final = "CrashLoopBackOff"
_BAD_CONFIG: Final = "CreateContainerConfigError"
_NOT_ROOT: Final = "runAsNonRoot"
_NOT_ROOT_HINT: Final = "use an image whose USER is a number other than 0, or ask for securityProfile: Baseline"
# One restart may be an accident; a container that was started a third time and is not ready is in a loop.
_LOOP: Final = 2
# The kubelet alternates between the error and its back-off, which quotes the error: both are to read the same.
_QUOTED_PULL_ERROR: Final = re.compile(r'Back-off pulling image "[^"]*": \w+: ')
_TEXT_LIMIT: Final = 800


@frozen
class Failure:
    """A reason of `api.reasons`, and a sentence that names the pod, container or node and quotes its message."""

    reason: str
    message: str


def pod_failure(pod: PodSummary) -> Failure | None:
    """Why the pod is not ready, None if no cause is known.

    The first of these counts: a pod that failed as a whole, one that no node takes, the first init container in
    trouble, the first container in trouble.
    """
    if pod.phase == "Failed" and (pod.reason or pod.message):
        words = ": ".join(part for part in (pod.reason, pod.message) if part)
        return Failure(POD_STARTUP_FAILED, f"Pod {pod.name}: {_cut(words)}")
    if pod.unscheduled and not pod.nominated:
        return Failure(UNSCHEDULABLE, f"Pod {pod.name} is not scheduled: {_cut(pod.unscheduled)}")
    failures = (_container_failure(pod, container) for container in pod.containers)
    return next((failure for failure in failures if failure is not None), None)


def node_failure(pod: PodSummary, node: NodeSummary | None) -> Failure | None:
    """The failure of the pod's node; `node` is None if it is not in the cache.

    A pod that is about to start may be on a node so new that it is not cached yet; one that runs may not.
    """
    if not pod.node or (node is None and pod.phase != "Running") or (node is not None and node.is_ready):
        return None
    if node is None:
        return Failure(NODE_LOST, f"Pod {pod.name}: its node {pod.node} is gone from the cluster")
    words = ": ".join(part for part in (node.reason, node.message) if part) or "it was never heard of"
    return Failure(NODE_LOST, f"Pod {pod.name}: its node {pod.node} is not ready: {_cut(words)}")


def pod_progress(pod: PodSummary) -> str:
    """How far the start of a pod without failures has come."""
    if pod.is_ending:
        return f"Waiting for pod {pod.name} to end."
    if not pod.node and pod.nominated:
        return f"Waiting for the room that pod {pod.name} gets on node {pod.nominated}."
    if not pod.node:
        return f"Waiting for pod {pod.name} to be scheduled."
    if not pod.started_at:
        return f"Pod {pod.name} is on node {pod.node}; waiting for its containers to start."
    return f"Pod {pod.name} runs on node {pod.node}; waiting for it to be ready."


def _container_failure(pod: PodSummary, container: ContainerSummary) -> Failure | None:
    if container.is_ready:
        return None
    kind = "init container" if container.is_init else "container"
    place = f"Pod {pod.name} {kind} {container.name}"
    ending = container.ended or container.ended_before
    if container.waiting_reason in _PULLING:
        words = _QUOTED_PULL_ERROR.sub("", container.waiting_message) or container.waiting_reason
        return Failure(IMAGE_PULL_FAILED, f"{place}: {_cut(words)}")
    if container.waiting_reason == _BAD_CONFIG and _NOT_ROOT in container.waiting_message:
        return Failure(SECURITY_PROFILE_UNMET, f"{place}: {_cut(container.waiting_message)}; {_NOT_ROOT_HINT}")
    if container.waiting_reason not in _STARTING | {_BACK_OFF}:
        return Failure(POD_STARTUP_FAILED, f"{place}: {_cut(container.waiting_message or container.waiting_reason)}")
    if not _is_in_trouble(container):
        return None
    reason = CRASH_LOOPING if container.restarts or container.waiting_reason == _BACK_OFF else POD_STARTUP_FAILED
    words = container.waiting_message or container.waiting_reason
    if ending is not None:
        reason = OUT_OF_MEMORY if ending.reason == _OUT_OF_MEMORY else reason
        words = _last_words(ending)
    return Failure(reason, f"{place}: {_cut(words)}{_counted(container.restarts)}")


def _is_in_trouble(container: ContainerSummary) -> bool:
    if container.waiting_reason == _BACK_OFF:
        return True
    if container.ended is not None:
        return container.ended.is_failure or container.restarts >= _LOOP
    # Running, or about to: what it ended with before counts while it has not got further than the last time.
    return container.restarts >= _LOOP and container.ended_before is not None


def _last_words(ending: Ending) -> str:
    if ending.reason == _OUT_OF_MEMORY:
        return f"killed because it needed more memory than it has{': ' if ending.message else ''}{ending.message}"
    if ending.message:
        return ending.message.strip()
    if not ending.is_failure:
        return "it ends without an error (exit code 0), but has to go on running"
    if ending.reason:
        return f"{ending.reason} (exit code {ending.exit_code})"
    if ending.exit_code:
        return f"container exited with code {ending.exit_code}"
    return f"container terminated by signal {ending.signal}"


def _counted(restarts: int) -> str:
    return f" (restarted {restarts} {'time' if restarts == 1 else 'times'})" if restarts else ""


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT_LIMIT else f"{text[:_TEXT_LIMIT]}…"
