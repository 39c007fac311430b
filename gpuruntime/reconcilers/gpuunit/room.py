"""Giving the room of a stock pod to the pod of the claimed unit: it is nominated for it, then the stock unit ends."""

import logging
from contextlib import suppress

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.control import QuarantinedError
from gpuruntime.desired.provenance import claim_of
from gpuruntime.kube import (
    Client,
    ConflictError,
    ForbiddenError,
    InvalidError,
    MergePatch,
    NotFoundError,
    metadata_only,
)
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.meta import ObjectKey
from gpuruntime.reconcilers.gpuunit.caches import UnitCaches
from gpuruntime.reconcilers.gpuunit.handoff import Handoff
from gpuruntime.service.stock.release import is_named_by, settle_claim

__all__ = ["give_room"]

_LOG = logging.getLogger(__name__)


async def give_room(client: Client, caches: UnitCaches, unit: GPUUnit, handoff: Handoff) -> bool:
    """Nominate the node of the stock pod for the pod of the unit; returns whether the pod changed.

    Then the stock unit is deleted, if the unit has claimed it. The API deletes it as well, but lets other callers go
    first, and this pod waits.
    """
    if handoff.pod is None or not handoff.node:
        return False
    key = ObjectKey(unit.metadata.namespace, handoff.pod.name)
    version = caches.pods.store.version_of(key)
    if version is None:
        return False
    patch = MergePatch({"status": {"nominatedNodeName": handoff.node}}).locked(version[1])
    try:
        await client.patch(metadata_only(Pod.KIND), key.name, key.namespace, patch, subresource="status")
    except (ConflictError, NotFoundError):
        return True
    except (ForbiddenError, InvalidError) as error:
        # Without the nomination the pod competes with others for the room.
        _LOG.warning("node not nominated for a claimed unit", extra={"pod": str(key), "error": str(error)})
        return False
    # What fails here is done by the API.
    with suppress(ConflictError, NotFoundError, ForbiddenError, InvalidError):
        await _end_stock(client, caches, unit)
    return True


async def _end_stock(client: Client, caches: UnitCaches, unit: GPUUnit) -> None:
    taken = caches.stock_of(unit)
    try:
        stock = None if taken is None else caches.units.store.get(taken.source.stock)
    except QuarantinedError:
        return
    claim = None if stock is None else claim_of(stock.metadata)
    if stock is not None and claim is not None and claim.claimed_for == unit.key and is_named_by(stock, unit):
        await settle_claim(client, stock, unit)
