"""The caches of the GPUStorage reconciler, and which storages a change concerns."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Self

from attrs import frozen

from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import OWNER_UID, STORAGE_PREPARE_LABEL
from gpuruntime.control import Cache, Change, Informer, by_field, by_label, projected
from gpuruntime.desired.storage.rendering import StorageClassFacts, class_facts
from gpuruntime.kube.builtin.batch import Job
from gpuruntime.kube.builtin.volumes import PersistentVolumeClaim
from gpuruntime.meta import ObjectKey, ResourceKind
from gpuruntime.reconcilers.pod_summary import PodSummary
from gpuruntime.reconcilers.pods import pods_using, watch_pods
from gpuruntime.reconcilers.volume_users import storages_of_change, trouble_of
from gpuruntime.service.reads.informers import storages_copying, units_mounting, watch_storages, watch_units

__all__ = ["StorageCaches", "mounts_changed", "mounts_of", "storage_of_job"]

_STORAGE_CLASS: Final = ResourceKind("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False)
_BY_CLASS: Final = by_field("spec.storageClassName")
_BY_STORAGE: Final = by_label(STORAGE_PREPARE_LABEL)


@frozen
class StorageCaches:
    """The informers of the reconciler, and the triggers and queries over several of them."""

    storages: Informer[GPUStorage]
    claims: Informer[PersistentVolumeClaim]
    jobs: Informer[Job]
    units: Informer[GPUUnit]
    pods: Informer[PodSummary]
    classes: Informer[StorageClassFacts]

    @classmethod
    def of(cls, cache: Cache, namespaces: Sequence[str], units: Sequence[str]) -> Self:
        """The informers of the namespaces of storages; `units` are those of units and pods, which others watch too."""
        return cls(
            storages=watch_storages(cache, namespaces),
            claims=cache.informer(PersistentVolumeClaim, namespaces=namespaces, indexes=[_BY_CLASS]),
            jobs=cache.informer(Job, namespaces=namespaces, labels=STORAGE_PREPARE_LABEL, indexes=[_BY_STORAGE]),
            units=watch_units(cache, units),
            pods=watch_pods(cache, units),
            classes=cache.informer(projected(_STORAGE_CLASS, class_facts)),
        )

    def class_of(self, claim: PersistentVolumeClaim) -> StorageClassFacts | None:
        """The StorageClass of a PersistentVolumeClaim, None if there is none."""
        return self.class_named(claim.spec.storage_class_name)

    def class_named(self, name: str | None) -> StorageClassFacts | None:
        return self.classes.store.get(ObjectKey("", name)) if name else None

    def source_of(self, storage: GPUStorage) -> GPUStorage | None:
        """The storage that one copies, None if there is none."""
        prepare = storage.spec.prepare
        if prepare is None or prepare.from_storage_name is None:
            return None
        return self.storages.store.get(ObjectKey(storage.metadata.namespace, prepare.from_storage_name))

    def jobs_of(self, storage: GPUStorage) -> tuple[Job, ...]:
        """The Jobs that were made for this very storage."""
        meta = storage.metadata
        found = self.jobs.store.list(meta.namespace, where={_BY_STORAGE.name: meta.name}).items
        return tuple(job for job in found if job.metadata.annotations.get(OWNER_UID) == meta.uid)

    def users_of(self, storage: ObjectKey) -> tuple[PodSummary, ...]:
        """The living pods that mount the volume of a storage, except its accessor."""
        found = pods_using(self.pods.store, storage)
        return tuple(pod for pod in found if not pod.is_over and pod.accessor != storage.name)

    def accessor_pods(self, storage: ObjectKey) -> tuple[PodSummary, ...]:
        """The living pods of the accessor of a storage."""
        found = pods_using(self.pods.store, storage)
        return tuple(pod for pod in found if not pod.is_over and pod.accessor == storage.name)

    def words_of(self, storage: ObjectKey, job: Job) -> str:
        """What the pod of a Job says, "" if it says nothing."""
        found = pods_using(self.pods.store, storage)
        own = (pod for pod in reversed(found) if pod.controller == job.metadata.name)
        return next(filter(None, map(trouble_of, own)), "")

    def units_of(self, storage: ObjectKey) -> tuple[str, ...]:
        """The names of the units that name a storage, sorted."""
        return tuple(sorted(unit.metadata.name for unit in units_mounting(self.units.store, storage)))

    def copies(self, source: GPUStorage) -> Iterator[ObjectKey]:
        """The storages to reconcile when a storage changes that they copy."""
        yield from (storage.key for storage in storages_copying(self.storages.store, source.key))

    def storages_of_class(self, change: Change[StorageClassFacts]) -> Iterable[ObjectKey]:
        """The storages to reconcile when a StorageClass changes."""
        # Every storage is reconciled when a process starts, without a change of its class.
        if change.initial or change.before == change.after:
            return ()
        return [claim.key for claim in self.claims.store.list(where={_BY_CLASS.name: change.key.name}).items]

    def storages_of_pod(self, change: Change[PodSummary]) -> Iterable[ObjectKey]:
        """The storages to reconcile when a pod changes that mounts their volumes."""
        return storages_of_change(change)


def mounts_of(unit: GPUUnit) -> Iterator[ObjectKey]:
    """The storages that a unit names."""
    yield from (ObjectKey(unit.metadata.namespace, mount.name) for mount in unit.spec.storage_mounts)


def mounts_changed(change: Change[GPUUnit]) -> bool:
    """A predicate: a unit names other storages than before."""
    before, after = (
        set() if state is None else {mount.name for mount in state.spec.storage_mounts}
        for state in (change.before, change.after)
    )
    return before != after


def storage_of_job(job: Job) -> Iterator[ObjectKey]:
    """The storage that a Job prepares."""
    name = job.metadata.labels.get(STORAGE_PREPARE_LABEL)
    if name:
        yield ObjectKey(job.metadata.namespace, name)
