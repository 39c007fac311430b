"""The group, and the labels and annotations by which the parts of the product know each other's objects.

They are what users' selectors and other programs rely on: none of them is ever renamed.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from gpuruntime.meta.names import LABEL_LIMIT

__all__ = [
    "APP_LABEL",
    "APP_NAME",
    "CLAIMED_AT",
    "CLAIM_ID",
    "GROUP",
    "MANAGED_BY",
    "MANAGED_BY_LABEL",
    "OPERATION_ID",
    "OWNER",
    "OWNER_UID",
    "POOL_LABEL",
    "RENDERED_DIGEST",
    "RENDERED_FOR",
    "RENDERED_TEMPLATE",
    "RENDER_ON",
    "REQUEST_HASH",
    "REQUEST_ID",
    "SOURCE_POOL",
    "SOURCE_STOCK_MARKS",
    "SOURCE_STOCK_NAME",
    "SOURCE_STOCK_NAMESPACE",
    "SOURCE_STOCK_UID",
    "STOCK_ORDINAL",
    "STOCK_REPLICAS",
    "UNIT_LABEL",
    "VERSION",
    "label_value",
]

GROUP: Final = "runtime.lokiwager.io"
VERSION: Final = "v1alpha1"

APP_LABEL: Final = "app.kubernetes.io/name"
APP_NAME: Final = "gpu-runtime-unit"
MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"
MANAGED_BY: Final = "gpu-runtime-operator"
UNIT_LABEL: Final = f"{GROUP}/unit"
"""On the children of a unit and on its pods: `label_value` of the unit's name. It alone is the selector."""
POOL_LABEL: Final = f"{GROUP}/pool"
"""On stock units: `label_value` of the name of the pool that made them."""

OWNER: Final = f"{GROUP}/owner"
"""On what a unit or a pool made: which one, such as "gpuunits.runtime.lokiwager.io/demo"."""
OWNER_UID: Final = f"{GROUP}/owner-uid"
"""Beside `OWNER`: its UID. An object is a unit's or a pool's own by this alone, whatever it is called or labelled."""

OPERATION_ID: Final = f"{GROUP}/operation-id"
"""On what the API created: the operationID of the request."""
REQUEST_HASH: Final = f"{GROUP}/request-hash"
"""Beside `OPERATION_ID`: the hash of the request, by which a replay is told from another request."""
REQUEST_ID: Final = f"{GROUP}/request-id"
"""On an Operation: the id of the request that made it, by which the log lines of all who work on it are found."""

STOCK_REPLICAS: Final = f"{GROUP}/stock-replicas"
"""On a seeded stock unit: how many units its batch has."""
STOCK_ORDINAL: Final = f"{GROUP}/stock-ordinal"
"""On a seeded stock unit: its place in the batch, from 1."""
CLAIM_ID: Final = f"{GROUP}/stock-claim-id"
"""On a stock unit that is being handed out: the UID of the Operation that claimed it."""
CLAIMED_AT: Final = f"{GROUP}/claimed-at"
"""Beside `CLAIM_ID`: when, as an RFC 3339 timestamp."""

SOURCE_STOCK_NAME: Final = f"{GROUP}/source-stock-name"
"""On an active unit: the stock unit whose capacity it took over. With namespace and UID, its provenance."""
SOURCE_STOCK_NAMESPACE: Final = f"{GROUP}/source-stock-namespace"
SOURCE_STOCK_UID: Final = f"{GROUP}/source-stock-uid"
SOURCE_POOL: Final = f"{GROUP}/source-pool"
"""On a claimed stock unit and on the active unit that took it over: the name of the pool that supplied it."""
SOURCE_STOCK_MARKS: Final[Mapping[str, str]] = {
    mark: f"{GROUP}/source-stock-{mark.removeprefix(f'{GROUP}/').removeprefix('stock-')}"
    for mark in (OPERATION_ID, REQUEST_HASH, STOCK_REPLICAS, STOCK_ORDINAL)
}
"""What says which request made a stock unit, by the annotation of the active unit that keeps it for its return."""

RENDER_ON: Final = f"{GROUP}/render-on"
"""On a unit, by its user: any new value asks for a pod template as the operator of today renders it."""
RENDERED_FOR: Final = f"{GROUP}/rendered-for"
"""On a Deployment: the hash of what its pod template was rendered for."""
RENDERED_TEMPLATE: Final = f"{GROUP}/rendered-template"
"""On a Deployment: its pod template as it was rendered, in JSON."""
RENDERED_DIGEST: Final = f"{GROUP}/rendered-digest"
"""On a Deployment: the hash of the two above, by which a damaged one is noticed."""

_DIGEST_LENGTH: Final = 10


def label_value(name: str) -> str:
    """The label value that stands for an object's name: the name itself, or its beginning and a hash if it is long.

    Guarantees: a legal label value for every legal object name; different names give different values but for
    collisions of 40 bits of SHA-256 among long names. A long name never meets a short one: no object name has the
    underscore before the hash.
    """
    if len(name) <= LABEL_LIMIT:
        return name
    digest = sha256(name.encode()).hexdigest()[:_DIGEST_LENGTH]
    return f"{name[: LABEL_LIMIT - _DIGEST_LENGTH - 1]}_{digest}"
