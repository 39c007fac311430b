"""Which names of stock units stand for capacity now.

A name belongs to a stock unit of that name, or to the active unit that took it over and names it. Whoever makes a stock
unit for the second time, because nobody knows whether the first time succeeded, looks here first.
"""

from collections.abc import Sequence

from attrs import frozen

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.desired.provenance import provenance_of
from gpuruntime.kube import Client, metadata_only
from gpuruntime.meta import ObjectKey, PartialObject

__all__ = ["CapacityNames"]


@frozen
class CapacityNames:
    """Looks names up, live, in the namespaces where units are; () is all of them."""

    namespaces: Sequence[str] = ()

    async def in_use(self, client: Client, namespace: str) -> set[str]:
        """The names in a stock namespace that stand for capacity."""
        units = await self._units(client, namespace)
        names = {unit.metadata.name for unit in units if unit.metadata.namespace == namespace}
        return names | _consumed(units, namespace)

    async def is_consumed(self, client: Client, stock: ObjectKey, *, besides: str) -> bool:
        """Whether an active unit, other than the one with the UID `besides`, has taken a stock unit over."""
        units = await self._units(client, stock.namespace)
        return stock.name in _consumed([unit for unit in units if unit.metadata.uid != besides], stock.namespace)

    async def _units(self, client: Client, stock_namespace: str) -> list[PartialObject]:
        # Stock first: a unit that is taken over between two lists is then in both of them, and not in none. One that is
        # given back may be in none, and is there when its name is tried.
        places = [None] if not self.namespaces else sorted(self.namespaces, key=lambda name: name != stock_namespace)
        return [unit for place in places for unit in (await client.list(metadata_only(GPUUnit.KIND), place)).items]


def _consumed(units: Sequence[PartialObject], namespace: str) -> set[str]:
    sources = [provenance_of(unit.metadata) for unit in units]
    return {source.stock.name for source in sources if source is not None and source.stock.namespace == namespace}
