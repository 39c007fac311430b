"""Writes on the PersistentVolumeClaims of storages: creation, adoption, mending, growth, marks and deletion.

Others write to these objects as well: every write here is a creation, or a merge patch of our own fields in the version
that was read.
"""

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from attrs import frozen

from gpuruntime.api.gpustorage import GPUStorage, ResizeStatus
from gpuruntime.api.reasons import CLAIM_LOST, FOREIGN_OBJECT, PREPARE_PENDING, PVC_SYNC_FAILED, STORAGE_PENDING
from gpuruntime.desired.storage.claim import (
    STORAGE,
    ClaimFate,
    adoption,
    can_clone,
    claim_fate,
    mending,
    new_claim,
    wants_clone,
)
from gpuruntime.desired.storage.growth import REFUSED, growth_of
from gpuruntime.desired.storage.rendering import StorageRendering
from gpuruntime.desired.storage.source import source_of
from gpuruntime.desired.storage.status import Obstacle
from gpuruntime.kube import AlreadyExistsError, Client, MergePatch, NotFoundError, StatusError
from gpuruntime.kube.builtin.volumes import PersistentVolumeClaim
from gpuruntime.reconcilers.gpustorage.caches import StorageCaches
from gpuruntime.reconcilers.gpustorage.sources import lock_source
from gpuruntime.service.objects.admission import REFUSALS, raise_if_rbac_denial
from gpuruntime.service.reads.reader import read_or_none

__all__ = ["ClaimSync", "ClaimSynced", "Resized"]

_LOG = logging.getLogger(__name__)
_ATTRIBUTES_CLASS: Final = "volumeAttributesClassName"
_LOST: Final = (
    "The data is gone: delete the storage, or restore the PersistentVolumeClaim and name it in adoptClaimUID."
)


@frozen
class ClaimSynced:
    """The outcome of a sync.

    Args:
        claim: the PersistentVolumeClaim of the storage, None if it has none.
        obstacle: why not.
        is_written: whether something was written; the change brings another run.
        is_refused: whether the API server refused a write, which is tried again after a while.
    """

    claim: PersistentVolumeClaim | None = None
    obstacle: Obstacle | None = None
    is_written: bool = False
    is_refused: bool = False


@frozen
class Resized:
    """The progress of a growth, and whether something was written or refused."""

    status: ResizeStatus | None = None
    is_written: bool = False
    is_refused: bool = False


@frozen
class ClaimSync:
    """Syncs PersistentVolumeClaims.

    Guarantees:
        - An unchanged one costs no write.
        - One that is not of the storage is never written to, unless the storage names its UID.
        - The spec is never rewritten, except for a new size and a new VolumeAttributesClass.
        - An empty volume never takes the place of one that had data.
    """

    client: Client
    caches: StorageCaches
    rendering: StorageRendering
    now: Callable[[], datetime]

    async def sync(self, storage: GPUStorage) -> ClaimSynced:
        """Bring the PersistentVolumeClaim of a storage to its desired state, its size excepted."""
        claim = self.caches.claims.store.get(storage.key)
        if claim is None and claim_fate(storage, None) is ClaimFate.LOST:
            claim = await read_or_none(self.client, PersistentVolumeClaim, storage.key)
        fate = claim_fate(storage, claim)
        if claim is None:
            return await self._create(storage) if fate is ClaimFate.CREATE else _lost("It does not exist.")
        match fate:
            case ClaimFate.OWN:
                return await self._mend(claim, mending(storage, claim))
            case ClaimFate.ADOPT:
                return await self._adopt(claim, adoption(storage, claim))
            case ClaimFate.GOING:
                message = "An earlier PersistentVolumeClaim of this name is being deleted."
                return ClaimSynced(obstacle=Obstacle(STORAGE_PENDING, message))
            case ClaimFate.FOREIGN:
                return ClaimSynced(obstacle=Obstacle(FOREIGN_OBJECT, _foreign(claim)))
        return _lost("It is being deleted.")

    async def resize(self, storage: GPUStorage, claim: PersistentVolumeClaim) -> Resized:
        """Have a volume grow, or change its class of attributes, as the storage says."""
        growth = growth_of(storage.spec, claim, self.caches.class_of(claim))
        spec: Mapping[str, Any]
        if growth.request is not None:
            field_name, spec = "size", {"resources": {"requests": {STORAGE: growth.request}}}
        elif growth.attributes_class is not None:
            field_name, spec = _ATTRIBUTES_CLASS, {_ATTRIBUTES_CLASS: growth.attributes_class}
        else:
            return Resized(growth.status)
        try:
            await self._patch(claim, {"spec": spec})
        except REFUSALS as error:
            raise_if_rbac_denial(error)
            words = f"spec.{field_name} was refused: {_words(error)}"
            return Resized(ResizeStatus(REFUSED, words), is_refused=True)
        return Resized(growth.status, is_written=True)

    async def mark(self, claim: PersistentVolumeClaim, annotation: str, value: str) -> None:
        """Write a mark in the version of the PersistentVolumeClaim that was read.

        Raises:
            ConflictError: it changed since.
        """
        await self._patch(claim, {"metadata": {"annotations": {annotation: value}}})

    async def delete(self, claim: PersistentVolumeClaim) -> None:
        """Delete this very PersistentVolumeClaim."""
        meta = claim.metadata
        try:
            await self.client.delete(PersistentVolumeClaim, meta.name, meta.namespace, uid=meta.uid)
        except NotFoundError:
            return

    async def left(self, storage: GPUStorage) -> PersistentVolumeClaim | None:
        """The PersistentVolumeClaim of a storage's name as it is on the server: a cache may lag."""
        return await read_or_none(self.client, PersistentVolumeClaim, storage.key)

    async def _create(self, storage: GPUStorage) -> ClaimSynced:
        is_clone = False
        known = self.caches.class_named(self.rendering.class_name(storage.spec.storage_class_name))
        if wants_clone(storage, self.rendering, known):
            # A clone is of a moment in which nothing writes: the source is locked before the volume is asked for.
            found = self.caches.source_of(storage)
            source = source_of(storage, found)
            if found is None or source.blocked:
                return ClaimSynced(obstacle=Obstacle(PREPARE_PENDING, source.blocked))
            is_clone = can_clone(storage, self.rendering, self.caches.claims.store.get(found.key))
            if is_clone and not source.is_locked:
                blocked = await lock_source(self.client, storage, found, self.now())
                if blocked:
                    return ClaimSynced(obstacle=Obstacle(PREPARE_PENDING, blocked))
        try:
            await self.client.create(new_claim(storage, self.rendering, is_clone=is_clone))
        except AlreadyExistsError:
            # The cache is behind: what exists is looked at in the next run.
            pass
        except REFUSALS as error:
            raise_if_rbac_denial(error)
            message = f"The PersistentVolumeClaim was refused: {_words(error)}"
            return ClaimSynced(obstacle=Obstacle(PVC_SYNC_FAILED, message), is_refused=True)
        return ClaimSynced(is_written=True)

    async def _mend(self, claim: PersistentVolumeClaim, metadata: Mapping[str, Any]) -> ClaimSynced:
        """Mend what others changed. A policy that refuses it does not make the data unusable."""
        if not metadata:
            return ClaimSynced(claim)
        try:
            await self._patch(claim, {"metadata": metadata})
        except REFUSALS as error:
            raise_if_rbac_denial(error)
            about = {"claim": str(claim.key), "error": _words(error)}
            _LOG.warning("change of a PersistentVolumeClaim refused", extra=about)
            return ClaimSynced(claim, is_refused=True)
        return ClaimSynced(claim, is_written=True)

    async def _adopt(self, claim: PersistentVolumeClaim, metadata: Mapping[str, Any]) -> ClaimSynced:
        try:
            await self._patch(claim, {"metadata": metadata})
        except REFUSALS as error:
            raise_if_rbac_denial(error)
            message = f"The adoption of the PersistentVolumeClaim was refused: {_words(error)}"
            return ClaimSynced(obstacle=Obstacle(PVC_SYNC_FAILED, message), is_refused=True)
        return ClaimSynced(claim, is_written=True)

    async def _patch(self, claim: PersistentVolumeClaim, body: Mapping[str, Any]) -> None:
        meta = claim.metadata
        patch = MergePatch(body).locked(meta.resource_version)
        await self.client.patch(PersistentVolumeClaim, meta.name, meta.namespace, patch)


def _lost(what: str) -> ClaimSynced:
    return ClaimSynced(obstacle=Obstacle(CLAIM_LOST, f"The storage had a PersistentVolumeClaim. {what} {_LOST}"))


def _foreign(claim: PersistentVolumeClaim) -> str:
    return (
        f"PersistentVolumeClaim {claim.key} exists and is not of this storage; not modified: use another name, delete"
        f" it, or set spec.adoptClaimUID to {claim.metadata.uid} to take it over with its data."
    )


def _words(error: StatusError) -> str:
    return error.message or str(error)
