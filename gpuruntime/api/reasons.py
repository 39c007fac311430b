"""Phases, and the reasons of the Ready condition. A person reads the phase; a program decides by the reason.

What the phase of a unit is follows from its reason, see `phase_of`.
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
"""It is there, as it was asked for."""
PROGRESSING: Final = "Progressing"
"""On its way; nothing is known to be wrong, or time alone may put it right."""
FAILED: Final = "Failed"
"""Somebody has to do something; the condition says what. The operator goes on trying."""
EMPTY: Final = "Empty"
"""A pool that is asked for no stock."""

UNIT_READY: Final = "UnitReady"
"""The active unit runs what this generation of its spec asks for."""
UNIT_PROGRESSING: Final = "UnitProgressing"
"""The active unit is rolling out."""
STOCK_READY: Final = "StockReady"
"""The stock unit holds its capacity and can be claimed."""
STOCK_NOT_READY: Final = "StockNotReady"
"""The stock unit is rolling out."""
STOCK_CLAIMED: Final = "StockClaimed"
"""The stock unit is being handed to an active unit."""

INVALID_SPEC: Final = "InvalidSpec"
"""The spec asks for something impossible that no schema refuses, or was stored before a rule. What runs is left alone
until it is mended."""
FOREIGN_OBJECT: Final = "ForeignObject"
"""An object that is not the unit's has the name of one of its children. It is left alone."""
DEPLOYMENT_SYNC_FAILED: Final = "DeploymentSyncFailed"
"""The API server refused the Deployment; its words are in the message."""
SERVICE_SYNC_FAILED: Final = "ServiceSyncFailed"
"""The API server refused the Service; its words are in the message."""
QUOTA_EXCEEDED: Final = "QuotaExceeded"
"""A ResourceQuota leaves no room for the pod."""
ADMISSION_REFUSED: Final = "AdmissionRefused"
"""The pod was refused for another reason than a quota: a webhook, a policy, a missing PriorityClass."""
UNSCHEDULABLE: Final = "Unschedulable"
"""No node takes the pod; the scheduler's words are in the message."""
IMAGE_PULL_FAILED: Final = "ImagePullFailed"
"""The image cannot be pulled: the name is wrong, the registry is away, a pull secret is missing."""
CRASH_LOOPING: Final = "CrashLooping"
"""The container ends again and again; its last words are in the message."""
OUT_OF_MEMORY: Final = "OutOfMemory"
"""The container was killed because it needed more memory than the unit has."""
POD_STARTUP_FAILED: Final = "PodStartupFailed"
"""The pod does not start for a reason that has no name of its own here: a missing Secret, a command that is not in the
image, a pod that was evicted."""
SECURITY_PROFILE_UNMET: Final = "SecurityProfileUnmet"
"""The image cannot run under the unit's security profile: it runs as root, or names its user by a word."""
NODE_LOST: Final = "NodeLost"
"""The node of the pod does not answer any more."""
PROGRESS_DEADLINE_EXCEEDED: Final = "ProgressDeadlineExceeded"
"""The rollout takes longer than its deadline, and the pod does not say why."""

POOL_READY: Final = "PoolReady"
"""The pool has all the ready stock that it is asked for."""
POOL_PROGRESSING: Final = "PoolProgressing"
"""The pool makes, replaces or removes stock, or waits until what was claimed has found its place."""
SCALED_TO_ZERO: Final = "ScaledToZero"
"""The pool is asked for no stock."""
REFILL_STOPPED: Final = "RefillStopped"
"""Stock unit after stock unit failed, so the pool makes no more for now; the message says why and until when."""
UNIT_SYNC_FAILED: Final = "UnitSyncFailed"
"""The API server refused a stock unit of the pool; its words are in the message."""

_PHASES: Final[Mapping[str, str]] = {
    UNIT_READY: READY,
    STOCK_READY: READY,
    STOCK_CLAIMED: PROGRESSING,
    UNIT_PROGRESSING: PROGRESSING,
    STOCK_NOT_READY: PROGRESSING,
    # Capacity comes and goes without anybody touching the unit.
    UNSCHEDULABLE: PROGRESSING,
    POOL_READY: READY,
    POOL_PROGRESSING: PROGRESSING,
    SCALED_TO_ZERO: EMPTY,
}


def phase_of(reason: str) -> str:
    """The phase of a unit or pool whose Ready condition has this reason: Failed unless it says otherwise."""
    return _PHASES.get(reason, FAILED)
