"""Claims on stock units, and the provenance of active units, as stored in annotations.

A claim on a stock unit names the Operation that made it and the active unit it is for. The provenance of an active unit
names the stock unit that it took over. A claim is void unless the provenance of its active unit names the stock unit's
UID.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final, Self

from attrs import frozen

from gpuruntime.api.names import (
    CLAIM_ID,
    CLAIMED_AT,
    GROUP,
    SOURCE_POOL,
    SOURCE_STOCK_NAME,
    SOURCE_STOCK_NAMESPACE,
    SOURCE_STOCK_UID,
)
from gpuruntime.meta import ObjectKey, ObjectMeta, format_seconds, is_dns_subdomain

__all__ = ["CLAIMED_BY", "CLAIMED_FOR", "CLAIM_ANNOTATIONS", "Claim", "Provenance", "claim_of", "provenance_of"]

CLAIMED_BY: Final = f"{GROUP}/claimed-by"
"""With `CLAIM_ID`: the name of the Operation."""
CLAIMED_FOR: Final = f"{GROUP}/claimed-for"
"""With `CLAIM_ID`: namespace/name of the active unit that the capacity is for."""

CLAIM_ANNOTATIONS: Final = (CLAIM_ID, CLAIMED_AT, CLAIMED_BY, CLAIMED_FOR, SOURCE_POOL)
"""The annotations that a claim sets on a stock unit and a release removes."""


@frozen
class Claim:
    """The claim of an Operation, by name and UID, on a stock unit for the active unit `claimed_for`.

    The UID distinguishes successive Operations with the same operationID. `pool` is the pool that supplied the unit,
    "" if none did. `claimed_for` is None if the unit is claimed for deletion, or if the annotations are invalid; an
    invalid name is "".
    """

    id: str
    operation: str
    claimed_for: ObjectKey | None
    pool: str = ""

    def annotations(self, now: datetime) -> dict[str, str]:
        """The annotations that the claim sets on the stock unit."""
        written = {CLAIM_ID: self.id, CLAIMED_AT: format_seconds(now), CLAIMED_BY: self.operation}
        if self.claimed_for is not None:
            written[CLAIMED_FOR] = str(self.claimed_for)
        return written | ({SOURCE_POOL: self.pool} if self.pool else {})


@frozen
class Provenance:
    """The stock unit that an active unit took over, and the pool that had supplied it ("" if none did)."""

    stock: ObjectKey
    uid: str
    pool: str = ""

    def annotations(self) -> dict[str, str]:
        """The annotations of the active unit."""
        written = {
            SOURCE_STOCK_NAME: self.stock.name,
            SOURCE_STOCK_NAMESPACE: self.stock.namespace,
            SOURCE_STOCK_UID: self.uid,
        }
        return written | ({SOURCE_POOL: self.pool} if self.pool else {})

    @classmethod
    def read(cls, annotations: Mapping[str, str]) -> Self | None:
        """The provenance in annotations, None if there is none or if it has invalid names."""
        uid = annotations.get(SOURCE_STOCK_UID, "")
        if not uid:
            return None
        key = ObjectKey(_name(annotations, SOURCE_STOCK_NAMESPACE), _name(annotations, SOURCE_STOCK_NAME))
        return cls(key, uid, _name(annotations, SOURCE_POOL)) if key.namespace and key.name else None


def claim_of(metadata: ObjectMeta) -> Claim | None:
    """The claim on a stock unit, None if it is free."""
    annotations = metadata.annotations
    if CLAIM_ID not in annotations:
        return None
    namespace, _, name = annotations.get(CLAIMED_FOR, "").partition("/")
    claimed_for = ObjectKey(namespace, name) if is_dns_subdomain(namespace) and is_dns_subdomain(name) else None
    return Claim(annotations[CLAIM_ID], _name(annotations, CLAIMED_BY), claimed_for, _name(annotations, SOURCE_POOL))


def provenance_of(metadata: ObjectMeta) -> Provenance | None:
    """The stock unit that an active unit took over, None for a cold start."""
    return Provenance.read(metadata.annotations)


def _name(annotations: Mapping[str, str], annotation: str) -> str:
    """The name in an annotation; "" if it is absent or not a valid object name, because users edit annotations."""
    name = annotations.get(annotation, "")
    return name if is_dns_subdomain(name) else ""
