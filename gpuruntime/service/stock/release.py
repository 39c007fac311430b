"""The two ends of a claim: an active unit took the stock unit over, and it is deleted; or it is released.

Both write the stock unit only in the version that was read. So of a hand-off and a release at the same time one wins,
and the other gets a conflict.
"""

from contextlib import suppress
from typing import Any

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.stockpool import StockPool
from gpuruntime.desired.provenance import CLAIM_ANNOTATIONS, Claim, claim_of, provenance_of
from gpuruntime.kube import Client, ConflictError, MergePatch, NotFoundError
from gpuruntime.meta import ObjectKey, encode, set_controller
from gpuruntime.service.objects.conflicts import ATTEMPTS

__all__ = ["consume", "is_named_by", "release", "release_patch", "settle_claim"]


def is_named_by(stock: GPUUnit, active: GPUUnit | None) -> bool:
    """Whether the active unit's provenance names this stock unit, by UID: then its claim can only be completed."""
    source = None if active is None else provenance_of(active.metadata)
    return source is not None and (source.stock, source.uid) == (stock.key, stock.metadata.uid)


def release_patch(stock: GPUUnit, pool: StockPool | None) -> MergePatch:
    """The patch that removes the claim from a unit, in the version that was read, and returns it to its pool."""
    metadata: dict[str, Any] = {"annotations": dict.fromkeys(CLAIM_ANNOTATIONS)}
    if pool is not None:
        owned = set_controller(stock.metadata, pool)
        metadata["ownerReferences"] = [encode(reference) for reference in owned.owner_references]
    return MergePatch({"metadata": metadata}).locked(stock.metadata.resource_version)


async def release(client: Client, stock: GPUUnit, claim: Claim) -> None:
    """Release a claimed unit. It returns to its pool; if the pool is gone, the unit is deleted like its other units.

    If the process dies before this, the claim remains, and the claim reconciler finds that it is void.

    Raises:
        ConflictError: the unit changed since it was read; read it again and decide again.
        NotFoundError: it is gone.
    """
    meta = stock.metadata
    pool = await _pool(client, ObjectKey(meta.namespace, claim.pool)) if claim.pool else None
    if claim.pool and pool is None:
        await client.delete(GPUUnit, meta.name, meta.namespace, uid=meta.uid, resource_version=meta.resource_version)
    else:
        await client.patch(GPUUnit, meta.name, meta.namespace, release_patch(stock, pool))


async def consume(client: Client, stock: GPUUnit) -> None:
    """Delete a claimed unit that an active unit has taken over.

    If the process dies before this, the capacity is occupied twice until the Operation is resumed, or the claim
    reconciler deletes the unit.

    Raises:
        ConflictError: the unit changed since it was read, or is another one of its name.
    """
    meta = stock.metadata
    with suppress(NotFoundError):
        await client.delete(GPUUnit, meta.name, meta.namespace, uid=meta.uid, resource_version=meta.resource_version)


async def settle_claim(client: Client, stock: GPUUnit, active: GPUUnit | None) -> None:
    """End the claim on a stock unit: `consume` it if the active unit names it, else `release` it.

    The caller has made sure that no other active unit can come to name the stock unit. A unit that changes meanwhile is
    read again; one with another claim, or none, is left alone.

    Raises:
        ConflictError: it changed during each attempt.
    """
    claim, current = claim_of(stock.metadata), stock
    for attempt in range(1, ATTEMPTS + 1):
        found = claim_of(current.metadata)
        if found is None or claim is None or found.id != claim.id or current.metadata.uid != stock.metadata.uid:
            return
        with suppress(NotFoundError):
            try:
                await (consume(client, current) if is_named_by(stock, active) else release(client, current, found))
            except ConflictError:
                if attempt == ATTEMPTS:
                    raise
                current = await client.get(GPUUnit, stock.metadata.name, stock.metadata.namespace)
                continue
        return


async def _pool(client: Client, key: ObjectKey) -> StockPool | None:
    try:
        pool = await client.get(StockPool, key.name, key.namespace)
    except NotFoundError:
        return None
    return pool if pool.metadata.deletion_timestamp is None else None
