"""The GPUStorage reconciler: a PersistentVolumeClaim for each storage, filled once, and a status that says how it is.

::

    spec ── valid? ── no ──> InvalidSpec, nothing is touched
              │ yes
    PersistentVolumeClaim ── ours, or adopted? ── no ──> ForeignObject, PVCSyncFailed, ClaimLost
              │ yes
    size, attributes ── refused? ── yes ──> status.resize; the storage stays Ready
              │
    preparation ── succeeded, or none? ── no ──> PreparePending, PrepareRunning, PrepareFailed, PrepareOutcomeLost
              │ yes
    volume ── bound, or waiting for its first consumer? ── no ──> StoragePending
              │ yes
            Ready

A run makes one write of a sequence at a time, and what it wrote brings the next run. So a process that ends anywhere is
continued by the next one from what is on the server.
"""

import logging
from collections.abc import Callable
from datetime import datetime
from typing import Final

from attrs import evolve, field, frozen

from gpuruntime.api.gpustorage import AccessorStatus, GPUStorage
from gpuruntime.api.names import GROUP, OWNER, STORAGE_FINALIZER
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.api.reasons import FAILED, INVALID_SPEC, RESIZE_REFUSED, STORAGE_DELETING, phase_of
from gpuruntime.control import (
    Context,
    Controller,
    ControllerOptions,
    Manager,
    Result,
    add_finalizer,
    allow,
    annotations_changed,
    any_of,
    generation_changed,
)
from gpuruntime.desired.storage.accessor import AccessorRendering
from gpuruntime.desired.storage.claim import volume_state
from gpuruntime.desired.storage.growth import REFUSED
from gpuruntime.desired.storage.rendering import StorageRendering
from gpuruntime.desired.storage.status import Obstacle, StorageFindings, is_mountable, storage_status, transition
from gpuruntime.desired.validation import format_violations, spec_violations
from gpuruntime.kube import NotFoundError
from gpuruntime.kube.builtin.batch import Job
from gpuruntime.kube.builtin.volumes import PersistentVolumeClaim
from gpuruntime.meta import ObjectKey
from gpuruntime.reconcilers.child_sync_errors import REFUSED_SECONDS
from gpuruntime.reconcilers.foreign_status import status_touched
from gpuruntime.reconcilers.gpustorage.accessor import AccessorCaches, AccessorSync
from gpuruntime.reconcilers.gpustorage.caches import StorageCaches, mounts_changed, mounts_of, storage_of_job
from gpuruntime.reconcilers.gpustorage.claims import ClaimSync
from gpuruntime.reconcilers.gpustorage.deleting import DeleteSync
from gpuruntime.reconcilers.gpustorage.preparing import PrepareSync

__all__ = ["GPUStorageOptions", "GPUStorageReconciler", "install_gpustorage"]

_LOG = logging.getLogger(__name__)
_OWNED_BY_STORAGE: Final = f"{GPUStorage.KIND.plural}.{GPUStorage.KIND.group}/"
_LOST_JOB: Final = "used when the cache lacks the Job of a preparation"
_LOCK_RACE: Final = "used when the source of a copy changes while it is locked"
_ADMISSION: Final = "asked for by the admission plugin OwnerReferencesPermissionEnforcement, not by a request"


@frozen
class GPUStorageOptions:
    """How storages are reconciled.

    Args:
        namespaces: the namespaces of the product; storages are in those of active units.
        rendering: what the operator decides about volumes and preparations.
        accessor: what the operator decides about accessors; None if they are not configured, then existing ones go.
        concurrency: how many storages are reconciled at a time.
        refused_seconds: after how many seconds a write that the server refused is retried.
    """

    namespaces: Namespaces = field(factory=Namespaces)
    rendering: StorageRendering = field(factory=StorageRendering)
    accessor: AccessorRendering | None = None
    concurrency: int = 4
    refused_seconds: float = REFUSED_SECONDS


def install_gpustorage(manager: Manager, options: GPUStorageOptions | None = None) -> Controller[ObjectKey]:
    """Add the GPUStorage controller to a manager. Before it runs."""
    chosen = options or GPUStorageOptions()
    instance = tuple(sorted(chosen.namespaces.instance))
    caches = StorageCaches.of(manager.cache, instance, chosen.namespaces.units)
    now = manager.server_time.now
    claims = ClaimSync(manager.client, caches, chosen.rendering, now)
    preparing = PrepareSync(manager.client, caches, claims, chosen.rendering, now)
    accessors = AccessorSync(AccessorCaches.of(manager.cache, instance), chosen.accessor)
    deleting = DeleteSync(manager.client, caches, claims, preparing, accessors)
    reconciler = GPUStorageReconciler(caches, claims, preparing, deleting, accessors, chosen.refused_seconds, now=now)
    builder = (
        manager.controller(
            caches.storages,
            # Not by the status, as long as this reconciler writes it. Locks and recoveries are annotations.
            when=any_of(generation_changed(), annotations_changed(), status_touched),
            options=ControllerOptions(concurrency=chosen.concurrency),
            field_manager=GROUP,
        )
        .watches(caches.storages, caches.copies)
        .watches(caches.claims, lambda claim: [claim.key])
        .watches(caches.jobs, storage_of_job)
        .watches(caches.units, mounts_of, when=mounts_changed)
        .watches(caches.pods, trigger=caches.storages_of_pod)
        .watches(caches.classes, trigger=caches.storages_of_class)
        .updates_status()
        .records_events()
        .permissions(
            allow(GPUStorage, "patch"),
            allow(GPUStorage, "get", rare=_LOCK_RACE),
            allow(GPUStorage, "update", subresource="finalizers", rare=_ADMISSION),
            allow(PersistentVolumeClaim, "get", "create", "patch", "delete"),
            allow(Job, "create", "patch", "delete"),
            allow(Job, "get", rare=_LOST_JOB),
        )
    )
    return accessors.caches.owned_by(builder).reconcile_keys(reconciler.reconcile)


@frozen
class GPUStorageReconciler:
    """Syncs the volume of a storage with its spec, fills it once, and its status with both.

    Guarantees:
        - An unchanged storage costs no write.
        - An invalid spec changes nothing.
        - Foreign objects are left alone, and named in the status.
        - Data is deleted with its storage only, and never while something uses it: the finalizer is on the storage
          before there is any data.
        - Each transition of the Ready condition, and each refused size, is recorded as an event, when its status is
          written.
        - A volume whose storage is gone without its finalizer is left alone, and logged.
    """

    caches: StorageCaches
    claims: ClaimSync
    preparing: PrepareSync
    deleting: DeleteSync
    accessors: AccessorSync
    refused_seconds: float = REFUSED_SECONDS
    now: Callable[[], datetime] = field(kw_only=True)

    async def reconcile(self, key: ObjectKey, ctx: Context) -> Result:
        """Reconcile one storage."""
        storage = self.caches.storages.store.get(key)
        if storage is None:
            self._report_orphan(key)
            return Result.done()
        ctx = ctx.of(storage)
        if storage.metadata.deletion_timestamp is not None:
            return await self._delete(storage, ctx)
        faults = format_violations(spec_violations(storage.spec))
        if faults:
            await self._update_status(ctx, StorageFindings(obstacle=Obstacle(INVALID_SPEC, faults, is_applied=False)))
            return Result.done()
        storage = await add_finalizer(ctx.client, storage, STORAGE_FINALIZER)
        return await self._sync(storage, ctx.of(storage))

    def _report_orphan(self, key: ObjectKey) -> None:
        """Log that a volume has no storage any more. Its data is kept: a new storage can name its UID."""
        claim = self.caches.claims.store.get(key)
        if claim is None or claim.metadata.deletion_timestamp is not None:
            return
        if claim.metadata.annotations.get(OWNER, "").startswith(_OWNED_BY_STORAGE):
            _LOG.warning("volume has no storage", extra={"claim": str(key), "uid": claim.metadata.uid})

    async def _sync(self, storage: GPUStorage, ctx: Context) -> Result:
        synced = await self.claims.sync(storage)
        if synced.is_written:
            return Result.done()
        found, is_refused = StorageFindings(synced.claim, obstacle=synced.obstacle), synced.is_refused
        claim = synced.claim
        if claim is not None and synced.obstacle is None:
            resized = await self.claims.resize(storage, claim)
            if resized.is_written:
                return Result.done()
            volume = volume_state(claim, self.caches.class_of(claim))
            found = evolve(found, volume=volume, resize=resized.status)
            is_refused = is_refused or resized.is_refused
            if storage.spec.prepare is not None and not volume.is_lost:
                prepared = await self.preparing.sync(storage, storage.spec.prepare, claim, volume)
                if prepared.is_written:
                    return Result.done()
                found = evolve(found, preparation=prepared.preparation)
                is_refused = is_refused or prepared.is_refused
        status, seconds = await self._accessor(storage, ctx, found)
        await self._update_status(ctx, evolve(found, accessor=status))
        waits = [each for each in (self.refused_seconds if is_refused else None, seconds) if each is not None]
        return Result.after(min(waits)) if waits else Result.done()

    async def _accessor(
        self, storage: GPUStorage, ctx: Context, found: StorageFindings
    ) -> tuple[AccessorStatus | None, float | None]:
        """The state of the accessor, and after how many seconds to look again."""
        is_bound = found.volume is not None and found.volume.volume == "bound"
        outcome = await self.accessors.sync(ctx, storage, is_mountable=is_mountable(found), is_bound=is_bound)
        return outcome.status, outcome.retry_seconds

    async def _delete(self, storage: GPUStorage, ctx: Context) -> Result:
        deletion = await self.deleting.sync(storage, ctx)
        if deletion is not None:
            obstacle = Obstacle(STORAGE_DELETING, deletion.message)
            claim = self.caches.claims.store.get(storage.key)
            await self._update_status(ctx, StorageFindings(claim, accessor=storage.status.accessor, obstacle=obstacle))
        return Result.done()

    async def _update_status(self, ctx: Context, found: StorageFindings) -> None:
        storage: GPUStorage = ctx.object
        before = storage.status
        found = evolve(found, mounted_by=self.caches.units_of(storage.key))
        status = storage_status(storage, found, self.now())
        try:
            if status is before or not await ctx.update_status(status):
                return
        except NotFoundError:
            return  # the storage was deleted meanwhile
        resize = status.resize
        if resize is not None and resize.phase == REFUSED and resize != before.resize:
            ctx.record("Warning", RESIZE_REFUSED, resize.message or "")
        changed = transition(before, status)
        if changed is not None:
            phase = phase_of(changed.reason)
            _LOG.info("storage status changed", extra={"phase": phase, "reason": changed.reason})
            ctx.record("Warning" if phase == FAILED else "Normal", changed.reason, changed.message or "")
