"""The phases of units, pools, functions and storages, and the reasons of the Ready condition.

The reason determines the phase, see `phase_of`. The phase is a summary for people; programs should use the reason.
"""

from collections.abc import Mapping
from typing import Final

__all__ = [
    "ACCESSOR_CONDITION",
    "ACCESSOR_DISABLED",
    "ACCESSOR_PENDING",
    "ACCESSOR_READY",
    "ADMISSION_REFUSED",
    "CLAIM_LOST",
    "CRASH_LOOPING",
    "DEPLOYMENT_SYNC_FAILED",
    "EMPTY",
    "FAILED",
    "FOREIGN_OBJECT",
    "FUNCTION_DELETING",
    "FUNCTION_PAUSED",
    "FUNCTION_PROGRESSING",
    "FUNCTION_READY",
    "IMAGE_PULL_FAILED",
    "INVALID_SPEC",
    "NETWORK_POLICY_SYNC_FAILED",
    "NODE_LOST",
    "OUT_OF_MEMORY",
    "PAUSED",
    "PENDING",
    "POD_STARTUP_FAILED",
    "POOL_PROGRESSING",
    "POOL_READY",
    "PREPARED_CONDITION",
    "PREPARED_REASON",
    "PREPARE_FAILED",
    "PREPARE_NOT_REQUESTED",
    "PREPARE_OUTCOME_LOST",
    "PREPARE_PENDING",
    "PREPARE_RUNNING",
    "PROGRESSING",
    "PROGRESS_DEADLINE_EXCEEDED",
    "PVC_SYNC_FAILED",
    "QUOTA_EXCEEDED",
    "READY",
    "READY_CONDITION",
    "REFILL_STOPPED",
    "REQUEST_ID_TAKEN",
    "RESIZE_REFUSED",
    "SCALED_TO_ZERO",
    "SECURITY_PROFILE_UNMET",
    "SERVERLESS_FAILED",
    "SERVERLESS_NOT_CONFIGURED",
    "SERVERLESS_PENDING",
    "SERVERLESS_READY",
    "SERVICE_SYNC_FAILED",
    "STARTS_STOPPED",
    "STOCK_CLAIMED",
    "STOCK_NOT_READY",
    "STOCK_READY",
    "STORAGE_DELETING",
    "STORAGE_IN_USE",
    "STORAGE_NOT_READY",
    "STORAGE_PENDING",
    "STORAGE_READY",
    "UNIT_PROGRESSING",
    "UNIT_READY",
    "UNIT_SYNC_FAILED",
    "UNSCHEDULABLE",
    "WAITS_FOR_FIRST_CONSUMER",
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
PAUSED: Final = "Paused"
"""The function starts no invocation, because its user said so."""
EMPTY: Final = "Empty"
"""The pool is scaled to zero."""
PENDING: Final = "Pending"
"""The storage cannot be mounted yet; no error is known."""

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
SERVERLESS_NOT_CONFIGURED: Final = "ServerlessNotConfigured"
"""The unit is a worker, or the function needs one, and the operator has no section `serverless` in its config."""
NETWORK_POLICY_SYNC_FAILED: Final = "NetworkPolicySyncFailed"
"""The API server refused the NetworkPolicy of a function's workers."""
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

FUNCTION_READY: Final = "FunctionReady"
"""The function has as many ready workers as it should have, which may be none."""
FUNCTION_PROGRESSING: Final = "FunctionProgressing"
"""The function has fewer ready workers than it should have, or replaces workers of an old revision."""
FUNCTION_PAUSED: Final = "FunctionPaused"
"""The function accepts invocations and starts none."""
FUNCTION_DELETING: Final = "FunctionDeleting"
"""The function is being deleted: its workers finish what they run, and its queue is emptied."""
STARTS_STOPPED: Final = "StartsStopped"
"""Three workers in a row failed; the function tries one at a time, with growing waits."""
REQUEST_ID_TAKEN: Final = "RequestIDTaken"
"""An older function of the namespace has the same requestID."""

STORAGE_NOT_READY: Final = "StorageNotReady"
"""A storage of the unit is missing, not prepared yet, lost, or being deleted; the message names it."""
STORAGE_IN_USE: Final = "StorageInUse"
"""A storage of the unit is mounted by another unit, or being copied; the message names the holder."""

STORAGE_READY: Final = "StorageReady"
"""The storage can be mounted."""
STORAGE_PENDING: Final = "StoragePending"
"""The volume of the storage is not bound yet."""
WAITS_FOR_FIRST_CONSUMER: Final = "WaitsForFirstConsumer"
"""The storage can be mounted; its StorageClass makes the volume when the first pod is scheduled."""
PVC_SYNC_FAILED: Final = "PVCSyncFailed"
"""The API server rejected the PersistentVolumeClaim; its error is in the message."""
CLAIM_LOST: Final = "ClaimLost"
"""The volume or the PersistentVolumeClaim of the storage is gone, and the data with it."""
PREPARE_PENDING: Final = "PreparePending"
"""The preparation has not started: it waits for the volume or for its source."""
PREPARE_RUNNING: Final = "PrepareRunning"
"""The preparation is running."""
PREPARE_FAILED: Final = "PrepareFailed"
"""The preparation failed; its last words are in the message. It is repeated only by a recovery."""
PREPARE_OUTCOME_LOST: Final = "PrepareOutcomeLost"
"""The Job of the preparation is gone and its outcome unknown. It is repeated only by a recovery."""
PREPARED_REASON: Final = "Prepared"
"""The preparation succeeded; it never runs again."""
PREPARE_NOT_REQUESTED: Final = "PrepareNotRequested"
"""The storage has no preparation."""
ACCESSOR_DISABLED: Final = "AccessorDisabled"
"""The accessor is not enabled."""
ACCESSOR_PENDING: Final = "AccessorPending"
"""The accessor is not ready: it starts, or it gives way to a unit."""
ACCESSOR_READY: Final = "AccessorReady"
"""The files of the storage can be read through the access gateway."""
RESIZE_REFUSED: Final = "ResizeRefused"
"""The StorageClass or the API server refused the new size; the storage keeps its capacity."""
STORAGE_DELETING: Final = "StorageDeleting"
"""The storage is being deleted, as soon as nothing mounts it."""

SERVERLESS_READY: Final = "UnitServerlessReady"
"""Of the condition ServerlessReady: the worker can take invocations."""
SERVERLESS_PENDING: Final = "UnitServerlessPending"
"""Of the condition ServerlessReady: the worker starts."""
SERVERLESS_FAILED: Final = "UnitServerlessFailed"
"""Of the condition ServerlessReady: the worker cannot start; the Ready condition has the reason."""

PREPARED_CONDITION: Final = "Prepared"
"""The type of the condition that shows the preparation."""
ACCESSOR_CONDITION: Final = "AccessorReady"
"""The type of the condition that shows the accessor."""

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
    FUNCTION_READY: READY,
    FUNCTION_PROGRESSING: PROGRESSING,
    FUNCTION_PAUSED: PAUSED,
    FUNCTION_DELETING: PROGRESSING,
    SERVERLESS_READY: READY,
    SERVERLESS_PENDING: PENDING,
    # A unit waits for its storages.
    STORAGE_NOT_READY: PROGRESSING,
    STORAGE_IN_USE: PROGRESSING,
    STORAGE_READY: READY,
    WAITS_FOR_FIRST_CONSUMER: READY,
    STORAGE_PENDING: PENDING,
    PREPARE_PENDING: PENDING,
    PREPARE_RUNNING: PENDING,
    STORAGE_DELETING: PENDING,
}


def phase_of(reason: str) -> str:
    """The phase of an object whose Ready condition has this reason; Failed for every reason not listed."""
    return _PHASES.get(reason, FAILED)
