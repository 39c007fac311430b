"""The deletion of a storage: `desired.storage.deletion` decides the next step, and this makes it."""

from attrs import frozen

from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.api.names import STORAGE_FINALIZER
from gpuruntime.control import Context, remove_finalizer
from gpuruntime.desired.storage.deletion import Deletion, DeletionStep, Remains, next_deletion
from gpuruntime.kube import Client
from gpuruntime.reconcilers.gpustorage.accessor import AccessorSync
from gpuruntime.reconcilers.gpustorage.caches import StorageCaches
from gpuruntime.reconcilers.gpustorage.claims import ClaimSync
from gpuruntime.reconcilers.gpustorage.preparing import PrepareSync
from gpuruntime.reconcilers.gpustorage.sources import has_source, release_source
from gpuruntime.reconcilers.volume_users import described

__all__ = ["DeleteSync"]


@frozen
class DeleteSync:
    """Deletes storages with their data, once nothing uses it.

    Guarantees: what a storage does not own is left alone; its PersistentVolumeClaim is deleted by its UID; the
    finalizer goes when a live read confirms that nothing of it is left.
    """

    client: Client
    caches: StorageCaches
    claims: ClaimSync
    preparing: PrepareSync
    accessors: AccessorSync

    async def sync(self, storage: GPUStorage, ctx: Context) -> Deletion | None:
        """Make the next step; returns it, None if the storage may go."""
        if STORAGE_FINALIZER not in storage.metadata.finalizers:
            return None
        source, claim = self.caches.source_of(storage), self.caches.claims.store.get(storage.key)
        users, children = self._users(storage)
        left = Remains(users, has_children=children, claim=claim, has_source=has_source(storage, source))
        deletion = next_deletion(storage, left)
        is_blocked = deletion.step is DeletionStep.WAIT
        if not is_blocked and await self.accessors.remove(ctx, storage):
            deletion = Deletion(DeletionStep.REMOVE_CHILDREN, "Its accessor is being removed.")
        match deletion.step:
            case DeletionStep.REMOVE_CHILDREN:
                await self.preparing.delete_jobs(storage)
            case DeletionStep.DELETE_CLAIM if claim is not None:
                await self.claims.delete(claim)
            case DeletionStep.RELEASE_SOURCE:
                await release_source(self.client, storage, source)
            case DeletionStep.FINISH:
                return await self._finish(storage, left)
        return deletion

    async def _finish(self, storage: GPUStorage, left: Remains) -> Deletion | None:
        live = await self.claims.left(storage)
        checked = next_deletion(storage, Remains(left.users, left.has_children, live, left.has_source))
        if checked.step is DeletionStep.FINISH:
            await remove_finalizer(self.client, storage, STORAGE_FINALIZER)
            return None
        if checked.step is DeletionStep.DELETE_CLAIM and live is not None:
            await self.claims.delete(live)
        return checked

    def _users(self, storage: GPUStorage) -> tuple[str, bool]:
        """Who mounts the volume beside the children of the storage, and whether a child is left."""
        users = self.caches.users_of(storage.key)
        own = [pod for pod in users if pod.prepares == storage.metadata.name]
        others = [pod for pod in users if pod not in own]
        accessing = self.caches.accessor_pods(storage.key)
        return described(others), bool(own or accessing or self.caches.jobs_of(storage))
