"""The phases of units and pools, and the reasons of the Ready condition.

The reason determines the phase, see `phase_of`. The phase is a summary for people; programs should use the reason.
"""

from collections.abc import Mapping
from typing import Final

__all__ = [
    "ADMISSION_REFUSED",
    "CRASH_LOOPING",
    "DEPLOYMENT_SYNC_FAILED",
    "EMPTY",
    "FAILED",
    "FOREIGN_OBJECT",
    "IMAGE_PULL_FAILED",
    "INVALID_SPEC",
    "NODE_LOST",
    "OUT_OF_MEMORY",
    "POD_STARTUP_FAILED",
    "POOL_PROGRESSING",
    "POOL_READY",
    "PROGRESSING",
    "PROGRESS_DEADLINE_EXCEEDED",
    "QUOTA_EXCEEDED",
    "READY",
    "READY_CONDITION",
    "REFILL_STOPPED",
    "SCALED_TO_ZERO",
    "SECURITY_PROFILE_UNMET",
    "SERVICE_SYNC_FAILED",
    "STOCK_CLAIMED",
    "STOCK_NOT_READY",
    "STOCK_READY",
    "UNIT_PROGRESSING",
    "UNIT_READY",
    "UNIT_SYNC_FAILED",
    "UNSCHEDULABLE",
    "phase_of",
]

READY_CONDITION: Final = "Ready"
"""The type of the condition that all of these reasons belong to."""

READY: Final = "Ready"
"""The object is in the desired state."""
PROGRESSING: Final = "Progressing"
"""The object is not ready yet; no error is known, or it may resolve itself."""
FAILED: Final = "Failed"
"""User action is required; the condition explains which. The operator keeps retrying."""
EMPTY: Final = "Empty"
"""The pool is scaled to zero."""

UNIT_READY: Final = "UnitReady"
"""The active unit runs the current generation of its spec, and stays up."""
UNIT_PROGRESSING: Final = "UnitProgressing"
"""The active unit is rolling out."""
STOCK_READY: Final = "StockReady"
"""The stock unit holds its capacity, stays up, and can be claimed."""
STOCK_NOT_READY: Final = "StockNotReady"
"""The stock unit is rolling out."""
STOCK_CLAIMED: Final = "StockClaimed"
"""The stock unit is claimed, and is being handed over to an active unit."""

INVALID_SPEC: Final = "InvalidSpec"
"""The spec is invalid in a way that the CRD does not validate, or was stored before a rule existed. Running pods are
not touched until it is fixed."""
FOREIGN_OBJECT: Final = "ForeignObject"
"""An object that the unit does not own has the name of one of its children. It is not touched."""
DEPLOYMENT_SYNC_FAILED: Final = "DeploymentSyncFailed"
"""The API server rejected the Deployment; its error is in the message."""
SERVICE_SYNC_FAILED: Final = "ServiceSyncFailed"
"""The API server rejected the Service; its error is in the message."""
QUOTA_EXCEEDED: Final = "QuotaExceeded"
"""The pod exceeds a ResourceQuota."""
ADMISSION_REFUSED: Final = "AdmissionRefused"
"""Admission rejected the pod for a reason other than quota: a webhook, a policy, a missing PriorityClass."""
UNSCHEDULABLE: Final = "Unschedulable"
"""No node fits the pod; the scheduler's message is in the message."""
IMAGE_PULL_FAILED: Final = "ImagePullFailed"
"""The image cannot be pulled: wrong name, unreachable registry, or missing pull secret."""
CRASH_LOOPING: Final = "CrashLooping"
"""The container ended at least twice in a row; its exit code and its last words are in the message."""
OUT_OF_MEMORY: Final = "OutOfMemory"
"""The container was killed because it exceeded the unit's memory; its last words are in the message."""
POD_STARTUP_FAILED: Final = "PodStartupFailed"
"""The pod does not start for any other reason: a missing Secret, a command that is not in the image, an eviction."""
SECURITY_PROFILE_UNMET: Final = "SecurityProfileUnmet"
"""The image cannot run under the unit's security profile: it runs as root, or its user is not numeric."""
NODE_LOST: Final = "NodeLost"
"""The pod's node is not responding."""
PROGRESS_DEADLINE_EXCEEDED: Final = "ProgressDeadlineExceeded"
"""The rollout exceeded its progress deadline, and the pod reports no reason."""

POOL_READY: Final = "PoolReady"
"""The pool has as many ready stock units as its spec asks for."""
POOL_PROGRESSING: Final = "PoolProgressing"
"""The pool creates, replaces or deletes stock units, or waits until claimed capacity has been handed over."""
SCALED_TO_ZERO: Final = "ScaledToZero"
"""The pool has replicas 0."""
REFILL_STOPPED: Final = "RefillStopped"
"""Too many stock units failed in a row, so the pool has paused; the message explains why and until when."""
UNIT_SYNC_FAILED: Final = "UnitSyncFailed"
"""The API server rejected a stock unit of the pool; its error is in the message."""

_PHASES: Final[Mapping[str, str]] = {
    UNIT_READY: READY,
    STOCK_READY: READY,
    STOCK_CLAIMED: PROGRESSING,
    UNIT_PROGRESSING: PROGRESSING,
    STOCK_NOT_READY: PROGRESSING,
    # Capacity may appear without a change of the unit.
    UNSCHEDULABLE: PROGRESSING,
    POOL_READY: READY,
    POOL_PROGRESSING: PROGRESSING,
    SCALED_TO_ZERO: EMPTY,
}


def phase_of(reason: str) -> str:
    """The phase of a unit or pool whose Ready condition has this reason; Failed for every reason not listed."""
    return _PHASES.get(reason, FAILED)
