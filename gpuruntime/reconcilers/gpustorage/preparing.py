"""The preparation of a storage: `desired.storage.preparation` decides the next write, and this makes it."""

from collections.abc import Callable
from datetime import datetime

from attrs import evolve, frozen

from gpuruntime.api.gpustorage import GPUStorage, StoragePrepare
from gpuruntime.api.names import PREPARE_STARTED, PREPARED, RECOVERY_NONCE
from gpuruntime.desired.storage.claim import VolumeState
from gpuruntime.desired.storage.locks import lock_of
from gpuruntime.desired.storage.marks import CLONE, Marks, Started, digest_of
from gpuruntime.desired.storage.preparation import Action, JobFacts, Observation, Preparation, next_step
from gpuruntime.desired.storage.prepare_job import RESUMED, job_facts, job_name, prepare_job, prepare_labels
from gpuruntime.desired.storage.rendering import StorageRendering
from gpuruntime.desired.storage.source import source_of
from gpuruntime.kube import AlreadyExistsError, Client, MergePatch, NotFoundError
from gpuruntime.kube.builtin.batch import Job
from gpuruntime.kube.builtin.volumes import PersistentVolumeClaim
from gpuruntime.meta import ObjectKey
from gpuruntime.reconcilers.gpustorage.caches import StorageCaches
from gpuruntime.reconcilers.gpustorage.claims import ClaimSync
from gpuruntime.reconcilers.gpustorage.sources import lock_source, release_source
from gpuruntime.reconcilers.volume_users import described
from gpuruntime.service.objects.admission import REFUSALS, raise_if_rbac_denial
from gpuruntime.service.reads.reader import read_or_none

__all__ = ["PrepareSync", "Prepared"]


@frozen
class Prepared:
    """How far a preparation is; whether something was written, or refused by the API server."""

    preparation: Preparation
    is_written: bool = False
    is_refused: bool = False


@frozen
class PrepareSync:
    """Prepares storages.

    Guarantees:
        - One Job for each asked attempt; no program runs without its mark, and none after a success.
        - What is written depends on the version that was read: an old view changes nothing that counts.
    """

    client: Client
    caches: StorageCaches
    claims: ClaimSync
    rendering: StorageRendering
    now: Callable[[], datetime]

    async def sync(
        self, storage: GPUStorage, prepare: StoragePrepare, claim: PersistentVolumeClaim, volume: VolumeState
    ) -> Prepared:
        """Make the next write of a preparation, and remove what is left of earlier ones."""
        plan = next_step(await self._observed(storage, prepare, claim, volume))
        if await self._cleaned_up(storage, prepare, plan):
            return Prepared(plan, is_written=True)
        match plan.action:
            case Action.NOTHING:
                return Prepared(plan)
            case Action.LOCK_SOURCE:
                return await self._lock(storage, plan)
            case Action.CREATE_JOB:
                job = prepare_job(
                    storage, prepare, plan.attempt, self.rendering, is_first_consumer=volume.volume == "late"
                )
                return await self._create(storage, job, plan)
            case Action.RESUME_JOB:
                return await self._resume(storage, prepare, plan)
            case Action.MARK_STARTED:
                nonce = storage.metadata.annotations.get(RECOVERY_NONCE, "")
                mark = Started(digest_of(prepare), plan.attempt, plan.job_uid, nonce)
                await self.claims.mark(claim, PREPARE_STARTED, str(mark))
            case Action.MARK_PREPARED:
                await self.claims.mark(claim, PREPARED, digest_of(prepare))
        return Prepared(plan, is_written=True)

    async def delete_jobs(self, storage: GPUStorage) -> bool:
        """Delete all Jobs of a storage; returns whether any is left."""
        return await self._delete_jobs(storage, frozenset())

    async def _observed(
        self, storage: GPUStorage, prepare: StoragePrepare, claim: PersistentVolumeClaim, volume: VolumeState
    ) -> Observation:
        marks = Marks.of(claim.metadata.annotations)
        lock = lock_of(storage.metadata)
        return Observation(
            digest=digest_of(prepare),
            marks=marks,
            jobs={} if marks.prepared else await self._jobs(storage, prepare, marks.started),
            source=source_of(storage, self.caches.source_of(storage)),
            volume=volume.volume,
            volume_message=volume.message,
            users=described(self.caches.users_of(storage.key)),
            holder="" if lock is None else lock.holder,
            nonce=storage.metadata.annotations.get(RECOVERY_NONCE, ""),
        )

    async def _jobs(self, storage: GPUStorage, prepare: StoragePrepare, started: Started | None) -> dict[int, JobFacts]:
        """The Jobs that decide, by attempt. That a Job is lost is confirmed by a live read, because caches lag."""
        if started is not None and started.job_uid == CLONE:
            return {}
        first = 1 if started is None else started.attempt
        found: dict[int, JobFacts] = {}
        for attempt in (first, first + 1):
            key = ObjectKey(storage.metadata.namespace, job_name(storage, prepare, attempt))
            job = self.caches.jobs.store.get(key)
            if job is None and started is not None and attempt == started.attempt:
                job = await read_or_none(self.client, Job, key)
            if job is not None:
                found[attempt] = job_facts(job, storage, self.caches.words_of(storage.key, job))
        return found

    async def _cleaned_up(self, storage: GPUStorage, prepare: StoragePrepare, plan: Preparation) -> bool:
        """Delete the Jobs that are not kept, and release the source that is not needed; returns whether any was."""
        kept = frozenset(job_name(storage, prepare, attempt) for attempt in plan.keeps)
        has_deleted = await self._delete_jobs(storage, kept, only_new=True)
        if plan.needs_source:
            return has_deleted
        return await release_source(self.client, storage, self.caches.source_of(storage)) or has_deleted

    async def _delete_jobs(self, storage: GPUStorage, kept: frozenset[str], *, only_new: bool = False) -> bool:
        is_left = False
        for job in self.caches.jobs_of(storage):
            meta = job.metadata
            is_going = meta.deletion_timestamp is not None
            if meta.name in kept or (only_new and is_going):
                continue
            is_left = True
            if not is_going:
                await self._delete(job)
        return is_left

    async def _delete(self, job: Job) -> None:
        meta = job.metadata
        try:
            await self.client.delete(Job, meta.name, meta.namespace, uid=meta.uid, propagation="Background")
        except NotFoundError:
            return

    async def _lock(self, storage: GPUStorage, plan: Preparation) -> Prepared:
        source = self.caches.source_of(storage)
        if source is None:
            return Prepared(plan)
        blocked = await lock_source(self.client, storage, source, self.now())
        return Prepared(evolve(plan, message=blocked), is_written=not blocked)

    async def _create(self, storage: GPUStorage, job: Job, plan: Preparation) -> Prepared:
        try:
            await self.client.create(job)
        except AlreadyExistsError:
            return await self._existing(storage, job, plan)
        except REFUSALS as error:
            raise_if_rbac_denial(error)
            refused = evolve(plan, message=f"the Job was refused: {error.message or error}")
            return Prepared(refused, is_refused=True)
        return Prepared(plan, is_written=True)

    async def _existing(self, storage: GPUStorage, job: Job, plan: Preparation) -> Prepared:
        """The Job exists and the cache has not shown it: it is behind, or another client took the labels away."""
        meta = job.metadata
        found = await read_or_none(self.client, Job, ObjectKey(meta.namespace, meta.name))
        if found is None:
            return Prepared(plan, is_refused=True)
        if not job_facts(found, storage).is_ours:
            message = f"Job {meta.name} exists and is not of this storage; not modified: delete it"
            return Prepared(evolve(plan, message=message), is_refused=True)
        if any(found.metadata.labels.get(name) != value for name, value in prepare_labels(storage).items()):
            patch = MergePatch({"metadata": {"labels": dict(prepare_labels(storage))}})
            await self.client.patch(Job, meta.name, meta.namespace, patch.locked(found.metadata.resource_version))
        return Prepared(plan, is_written=True)

    async def _resume(self, storage: GPUStorage, prepare: StoragePrepare, plan: Preparation) -> Prepared:
        key = ObjectKey(storage.metadata.namespace, job_name(storage, prepare, plan.attempt))
        job = self.caches.jobs.store.get(key) or await read_or_none(self.client, Job, key)
        if job is None or job.metadata.uid != plan.job_uid:
            return Prepared(plan, is_refused=True)
        body = {"metadata": {"annotations": {RESUMED: "true"}}, "spec": {"suspend": False}}
        try:
            await self.client.patch(
                Job, key.name, key.namespace, MergePatch(body).locked(job.metadata.resource_version)
            )
        except REFUSALS as error:
            raise_if_rbac_denial(error)
            return Prepared(evolve(plan, message=f"the Job was refused: {error.message or error}"), is_refused=True)
        return Prepared(plan, is_written=True)
