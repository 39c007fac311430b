"""Deleting one stock unit on request: only if it is not claimed, and not part of a batch that is still being seeded."""

from typing import Final

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.operation import DELETE_STOCK_UNIT
from gpuruntime.desired.provenance import claim_of
from gpuruntime.kube import Client
from gpuruntime.service.errors import StockClaimedError
from gpuruntime.service.objects.delete import DeleteObjectHandler
from gpuruntime.service.objects.served_kind import ServedKind
from gpuruntime.service.reads.informers import watch_units
from gpuruntime.service.stock.seed import is_being_seeded

__all__ = ["STOCK_UNITS"]


def _ensure_unclaimed(unit: GPUUnit) -> None:
    claim = claim_of(unit.metadata)
    if claim is None:
        return
    if claim.claimed_for is None:
        raise StockClaimedError(f"stock unit {unit.key} is being deleted by operation {claim.operation}; wait")
    raise StockClaimedError(f"stock unit {unit.key} is claimed for unit {claim.claimed_for}; delete that unit instead")


async def _ensure_seeded(client: Client, unit: GPUUnit, operations_namespace: str) -> None:
    if await is_being_seeded(client, unit, operations_namespace):
        raise StockClaimedError(
            f"stock unit {unit.key} belongs to a job that has not ended, and would be created again; wait for its end"
        )


STOCK_UNITS: Final = ServedKind(
    GPUUnit,
    lambda namespaces: namespaces.stock,
    watch=lambda cache, namespaces: watch_units(cache, namespaces.units),
    deletion=DeleteObjectHandler(DELETE_STOCK_UNIT, GPUUnit, _ensure_unclaimed, _ensure_seeded),
)
"""Stock units in the API. They are created in batches, see `seed`; the deletion of one that must stay raises
StockClaimedError."""
