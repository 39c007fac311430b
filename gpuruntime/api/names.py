"""The API group, and the product's labels and annotations.

Users' selectors and other programs rely on them, so none of them is ever renamed.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from gpuruntime.meta import LABEL_LIMIT

__all__ = [
    "APP_LABEL",
    "APP_NAME",
    "ATTACHED_AT",
    "ATTACHED_BY",
    "ATTACHED_BY_UID",
    "ATTACHED_TO",
    "ATTACHED_UID",
    "CLAIMED_AT",
    "CLAIM_ID",
    "FUNCTION_FINALIZER",
    "FUNCTION_LABEL",
    "FUNCTION_REQUEST_ID",
    "FUNCTION_REVISION",
    "GROUP",
    "LAST_HOLDER",
    "MANAGED_BY",
    "MANAGED_BY_LABEL",
    "OPERATION_ID",
    "OWNER",
    "OWNER_UID",
    "POOL_LABEL",
    "PREPARED",
    "PREPARE_STARTED",
    "RECOVERY_NONCE",
    "RECOVERY_WIPE",
    "RENDERED_DIGEST",
    "RENDERED_FOR",
    "RENDERED_TEMPLATE",
    "RENDER_ON",
    "REQUEST_HASH",
    "REQUEST_ID",
    "RESERVED_PREFIXES",
    "SOURCE_POOL",
    "SOURCE_STOCK_ANNOTATIONS",
    "SOURCE_STOCK_NAME",
    "SOURCE_STOCK_NAMESPACE",
    "SOURCE_STOCK_UID",
    "STOCK_ORDINAL",
    "STOCK_REPLICAS",
    "STORAGE_ACCESSOR_LABEL",
    "STORAGE_FINALIZER",
    "STORAGE_LABEL",
    "STORAGE_PREPARE_LABEL",
    "UNIT_LABEL",
    "VERSION",
    "is_reserved",
    "label_value",
]

GROUP: Final = "runtime.lokiwager.io"
VERSION: Final = "v1alpha1"

APP_LABEL: Final = "app.kubernetes.io/name"
APP_NAME: Final = "gpu-runtime-unit"
MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"
MANAGED_BY: Final = "gpu-runtime-operator"
UNIT_LABEL: Final = f"{GROUP}/unit"
"""On a unit's children and pods: `label_value` of the unit's name. It is the whole selector."""
POOL_LABEL: Final = f"{GROUP}/pool"
"""On stock units: `label_value` of the name of the pool that created them."""

OWNER: Final = f"{GROUP}/owner"
"""On objects that a unit or a pool created: the creator, such as "gpuunits.runtime.lokiwager.io/demo"."""
OWNER_UID: Final = f"{GROUP}/owner-uid"
"""With `OWNER`: the creator's UID. It alone decides ownership; names and labels do not."""

OPERATION_ID: Final = f"{GROUP}/operation-id"
"""On objects that the API created: the operationID of the request."""
REQUEST_HASH: Final = f"{GROUP}/request-hash"
"""With `OPERATION_ID`: the hash of the request, which distinguishes a replay from a different request."""
REQUEST_ID: Final = f"{GROUP}/request-id"
"""On an Operation: the ID of the HTTP request that created it, which all related log lines carry."""

STOCK_REPLICAS: Final = f"{GROUP}/stock-replicas"
"""On a seeded stock unit: the size of its batch."""
STOCK_ORDINAL: Final = f"{GROUP}/stock-ordinal"
"""On a seeded stock unit: its ordinal in the batch, from 1."""
CLAIM_ID: Final = f"{GROUP}/stock-claim-id"
"""On a claimed stock unit: the UID of the Operation that claimed it."""
CLAIMED_AT: Final = f"{GROUP}/claimed-at"
"""With `CLAIM_ID`: the time of the claim, as an RFC 3339 timestamp."""

SOURCE_STOCK_NAME: Final = f"{GROUP}/source-stock-name"
"""On an active unit: the stock unit whose capacity it took over. With namespace and UID, its provenance."""
SOURCE_STOCK_NAMESPACE: Final = f"{GROUP}/source-stock-namespace"
SOURCE_STOCK_UID: Final = f"{GROUP}/source-stock-uid"
SOURCE_POOL: Final = f"{GROUP}/source-pool"
"""On a claimed stock unit and on the active unit that took it over: the name of the pool that supplied it."""
SOURCE_STOCK_ANNOTATIONS: Final[Mapping[str, str]] = {
    annotation: f"{GROUP}/source-stock-{annotation.removeprefix(f'{GROUP}/').removeprefix('stock-')}"
    for annotation in (OPERATION_ID, REQUEST_HASH, STOCK_REPLICAS, STOCK_ORDINAL)
}
"""The annotations that record the request which created a stock unit, and under which annotation an active unit keeps
each of them for the return of the capacity."""

STORAGE_LABEL: Final = f"{GROUP}/storage"
"""On the children of a storage and their pods: the name of the storage."""
STORAGE_PREPARE_LABEL: Final = f"{GROUP}/storage-prepare"
"""On the Job and the pod of a preparation: the name of the storage."""
STORAGE_ACCESSOR_LABEL: Final = f"{GROUP}/storage-accessor"
"""On the accessor's Deployment, Service and pod: the name of the storage. It is the whole selector."""
STORAGE_FINALIZER: Final = f"{GROUP}/storage-data"
"""On a storage: keeps it until its volume is deleted."""
ATTACHED_TO: Final = f"{GROUP}/attached-to"
"""On a storage that is locked: who has it, as plural/name, such as gpuunits/demo or gpustorages/copy."""
ATTACHED_UID: Final = f"{GROUP}/attached-uid"
"""With `ATTACHED_TO`: the holder's UID. Absent while an Operation is about to create the unit."""
ATTACHED_BY: Final = f"{GROUP}/attached-by"
"""With `ATTACHED_TO`, if the API locked the storage: the name of the Operation."""
ATTACHED_BY_UID: Final = f"{GROUP}/attached-by-uid"
"""With `ATTACHED_BY`: the UID of the Operation."""
ATTACHED_AT: Final = f"{GROUP}/attached-at"
"""With `ATTACHED_TO`: the time of the lock, as an RFC 3339 timestamp."""
LAST_HOLDER: Final = f"{GROUP}/last-holder"
"""On a storage: the holder whose lock was released last, with its UID, or that of the Operation that locked for it."""
RECOVERY_NONCE: Final = f"{GROUP}/storage-recovery-nonce"
"""On a storage: any new value requests another attempt of a failed preparation; the API writes its operationID."""
RECOVERY_WIPE: Final = f"{GROUP}/storage-recovery-wipe"
"""With `RECOVERY_NONCE`: "false" keeps what the failed attempt left behind; by default the volume is wiped first."""
PREPARE_STARTED: Final = f"{GROUP}/prepare-started"
"""On a PersistentVolumeClaim: the attempt that may have written to it, see `desired.storage.preparation`."""
PREPARED: Final = f"{GROUP}/prepared"
"""On a PersistentVolumeClaim: the digest of the preparation that filled it."""

FUNCTION_LABEL: Final = f"{GROUP}/function"
"""On a worker of a function and its pods: the name of the function. It says nothing about a unit that others made until
`FUNCTION_REQUEST_ID` agrees with its spec."""
FUNCTION_REQUEST_ID: Final = f"{GROUP}/function-request-id"
"""With `FUNCTION_LABEL` on a unit: the requestID of that function."""
FUNCTION_REVISION: Final = f"{GROUP}/function-revision"
"""On a worker that its function created: the hash of the worker's spec at its creation."""
FUNCTION_FINALIZER: Final = f"{GROUP}/function-queue"
"""On a function: keeps it until its queue is deleted. The activator sets it before it makes the queue."""

RENDER_ON: Final = f"{GROUP}/render-on"
"""On a unit, set by its user: any new value requests a pod template rendered by the current operator version."""
RENDERED_FOR: Final = f"{GROUP}/rendered-for"
"""On a Deployment: the hash of the inputs of its pod template."""
RENDERED_TEMPLATE: Final = f"{GROUP}/rendered-template"
"""On a Deployment: its pod template as it was rendered, in JSON."""
RENDERED_DIGEST: Final = f"{GROUP}/rendered-digest"
"""On a Deployment: the hash of the two above, which detects damage."""

RESERVED_PREFIXES: Final = (GROUP, "app.kubernetes.io")
"""Prefixes of the labels that only the product sets."""
_DIGEST_LENGTH: Final = 10


def is_reserved(label: str) -> bool:
    """Whether only the product sets this label."""
    return label.partition("/")[0] in RESERVED_PREFIXES


def label_value(name: str) -> str:
    """The label value for an object's name: the name itself, or its beginning and a hash if it is too long.

    Guarantees: a valid label value for every valid object name. Different names give different values, except for
    collisions of 40 bits of SHA-256 among long names. A shortened name never equals another object's name, because no
    object name contains the underscore before the hash.
    """
    if len(name) <= LABEL_LIMIT:
        return name
    digest = sha256(name.encode()).hexdigest()[:_DIGEST_LENGTH]
    return f"{name[: LABEL_LIMIT - _DIGEST_LENGTH - 1]}_{digest}"
