"""Who a stock unit is promised to, and where the capacity of an active unit came from, as annotations tell it.

A claim on a stock unit says which Operation made it and which active unit it is for. The provenance of an active unit
says which stock unit it took over. The claim is void unless the active unit that it is for names the stock unit by UID.
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
"""Beside the claim's id, which is the UID of an Operation: the name of that Operation."""
CLAIMED_FOR: Final = f"{GROUP}/claimed-for"
"""Beside the claim's id: namespace/name of the active unit that the capacity is for."""

CLAIM_ANNOTATIONS: Final = (CLAIM_ID, CLAIMED_AT, CLAIMED_BY, CLAIMED_FOR, SOURCE_POOL)
"""All that a claim writes on a stock unit, and all that a release takes away."""


@frozen
class Claim:
    """A stock unit is being handed to the active unit `claimed_for`, by the Operation of this name and UID.

    The UID keeps two Operations apart that had one operationID, one after the other. `pool` is the pool that supplied
    the unit, "" if none did. Where the unit is being given up, or somebody else wrote the claim, or spoilt it,
    `claimed_for` is None, and a name that no object can have is "".
    """

    id: str
    operation: str
    claimed_for: ObjectKey | None
    pool: str = ""

    def annotations(self, now: datetime) -> dict[str, str]:
        """What the claim writes on the stock unit."""
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
        """What the active unit carries."""
        written = {
            SOURCE_STOCK_NAME: self.stock.name,
            SOURCE_STOCK_NAMESPACE: self.stock.namespace,
            SOURCE_STOCK_UID: self.uid,
        }
        return written | ({SOURCE_POOL: self.pool} if self.pool else {})

    @classmethod
    def read(cls, annotations: Mapping[str, str]) -> Self | None:
        """The provenance that annotations tell, None if they tell none or name what cannot be."""
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
    """Where the capacity of an active unit came from, None for one that was started cold."""
    return Provenance.read(metadata.annotations)


def _name(annotations: Mapping[str, str], annotation: str) -> str:
    """The name in an annotation; "" if there is none, or none that an object can have: people edit annotations."""
    name = annotations.get(annotation, "")
    return name if is_dns_subdomain(name) else ""
