"""Names of seeded stock units: how they follow from the operationID, and which of them are in use.

A name stands for one piece of capacity. It belongs to a stock unit of that name, or to the active unit that took the
stock unit over and names it in its provenance. A retry that may create a stock unit for the second time checks here
first.
"""

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from attrs import frozen

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.rest.stock_units import LARGEST_BATCH
from gpuruntime.desired.provenance import provenance_of
from gpuruntime.kube import Client, metadata_only
from gpuruntime.meta import ObjectKey, PartialObject

__all__ = ["CapacityNames", "batch_name", "stock_name"]

_NAME_LIMIT: Final = 63
_NUMBER_LENGTH: Final = 4
_HASH_LENGTH: Final = 10
_PREFIX: Final = "stock-"
_SPEC_LIMIT: Final = _NAME_LIMIT - len(_PREFIX) - 1 - _HASH_LENGTH - _NUMBER_LENGTH
_FOREIGN: Final = re.compile(r"[^a-z0-9-]+")


def batch_name(spec_name: str, operation_id: str) -> str:
    """The prefix of the names of a batch, such as "stock-g1-1-0a1b2c3d4e".

    Guarantees: a valid name for any spec name; different operationIDs give different names except for collisions of 40
    bits of SHA-256, because a long spec name is truncated and the hash never is.
    """
    spec = _FOREIGN.sub("-", spec_name.lower()).strip("-")[:_SPEC_LIMIT].strip("-") or "default"
    digest = sha256(operation_id.encode()).hexdigest()[:_HASH_LENGTH]
    return f"{_PREFIX}{spec}-{digest}"


def stock_name(batch: str, ordinal: int) -> str:
    """The name of one unit of a batch; ordinals start at 1.

    Raises:
        ValueError: the ordinal is out of range.
    """
    if not 1 <= ordinal <= LARGEST_BATCH:
        raise ValueError(f"expected an ordinal from 1 to {LARGEST_BATCH}, got {ordinal}")
    return f"{batch}-{ordinal:03d}"


@frozen
class CapacityNames:
    """Finds the names in use, by live reads of the units in these namespaces; () is all."""

    namespaces: Sequence[str] = ()

    async def in_use(self, client: Client, namespace: str) -> set[str]:
        """The names of a stock namespace that are in use."""
        units = await self._units(client, namespace)
        names = {unit.metadata.name for unit in units if unit.metadata.namespace == namespace}
        return names | _consumed(units, namespace)

    async def is_consumed(self, client: Client, stock: ObjectKey, *, excluding: str) -> bool:
        """Whether an active unit, other than the one with the UID `excluding`, has taken the stock unit over."""
        units = await self._units(client, stock.namespace)
        return stock.name in _consumed([unit for unit in units if unit.metadata.uid != excluding], stock.namespace)

    async def _units(self, client: Client, stock_namespace: str) -> list[PartialObject]:
        # Stock first: a unit that is taken over between two lists is then in both of them instead of in neither. One
        # that is returned may be in neither; then creating it reports that it exists.
        ordered = [None] if not self.namespaces else sorted(self.namespaces, key=lambda name: name != stock_namespace)
        lists = [(await client.list(metadata_only(GPUUnit.KIND), namespace)).items for namespace in ordered]
        return [unit for units in lists for unit in units]


def _consumed(units: Sequence[PartialObject], namespace: str) -> set[str]:
    sources = [provenance_of(unit.metadata) for unit in units]
    return {source.stock.name for source in sources if source is not None and source.stock.namespace == namespace}
