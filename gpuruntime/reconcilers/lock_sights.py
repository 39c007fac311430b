"""What is known about the lock on a storage: from the caches at no cost, or live before it is released."""

from typing import Final

from attrs import frozen

from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import STORAGE_PREPARE_LABEL, label_value
from gpuruntime.api.operation import Operation
from gpuruntime.control import Store
from gpuruntime.desired.storage.lock_verdict import Sight
from gpuruntime.desired.storage.locks import Lock
from gpuruntime.desired.storage.volume_use import excludes_others, uses_of_template
from gpuruntime.kube import Client
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.meta import ObjectKey
from gpuruntime.reconcilers.pod_summary import PodSummary
from gpuruntime.reconcilers.pods import exclusive_pods
from gpuruntime.reconcilers.unit_workload import UnitWorkload
from gpuruntime.service.operations.record import has_ended
from gpuruntime.service.reads.reader import read_or_none

__all__ = ["LockSights"]

_OVER: Final = frozenset({"Succeeded", "Failed"})


@frozen
class LockSights:
    """Looks at the holder of a lock, its Operation, and what uses the volume.

    Caveats:
        Pods that belong neither to the holder nor to its preparation are known from the cache only, also live: there is
        no request for the pods of a volume.
    """

    storages: Store[GPUStorage]
    units: Store[GPUUnit]
    operations: Store[Operation]
    pods: Store[PodSummary]
    client: Client
    system: str

    def operation(self, lock: Lock) -> Operation | None:
        """The Operation that locked, from the cache; None if it is not there, also if another one has its name."""
        found = self.operations.get(ObjectKey(self.system, lock.operation)) if lock.operation else None
        return found if found is not None and found.metadata.uid == lock.operation_uid else None

    def cached(self, storage: GPUStorage, lock: Lock, *, can_operation_act: bool) -> Sight:
        """By the caches.

        Raises:
            QuarantinedError: the holder cannot be decoded.
        """
        namespace = storage.metadata.namespace
        holder: GPUUnit | GPUStorage | None = None
        if lock.unit_name:
            holder = self.units.get(ObjectKey(namespace, lock.unit_name))
        elif lock.storage_name:
            holder = self.storages.get(ObjectKey(namespace, lock.storage_name))
        return Sight(holder, can_operation_act, self._pods(storage))

    async def live(self, storage: GPUStorage, lock: Lock) -> Sight:
        """By reads in the order in which pods come into being: what is gone in this order stays gone.

        Raises:
            KubeError: the API server is not available.
        """
        namespace, can_act = storage.metadata.namespace, await self._can_act(lock)
        if lock.unit_name:
            unit = await read_or_none(self.client, GPUUnit, ObjectKey(namespace, lock.unit_name))
            workload = await UnitWorkload.read(self.client, ObjectKey(namespace, lock.unit_name))
            return Sight(unit, can_act, (*workload.users_of(storage), *self._pods(storage)))
        if lock.storage_name:
            copy = await read_or_none(self.client, GPUStorage, ObjectKey(namespace, lock.storage_name))
            return Sight(copy, can_act, (*await self._copying(storage, lock.storage_name), *self._pods(storage)))
        return Sight(None, can_act, self._pods(storage))

    async def _can_act(self, lock: Lock) -> bool:
        if not lock.operation:
            return False
        found = await read_or_none(self.client, Operation, ObjectKey(self.system, lock.operation))
        return found is not None and found.metadata.uid == lock.operation_uid and not has_ended(found)

    async def _copying(self, storage: GPUStorage, copy: str) -> tuple[str, ...]:
        labels = f"{STORAGE_PREPARE_LABEL}={label_value(copy)}"
        found = await self.client.list(Pod, storage.metadata.namespace, labels=labels)
        return tuple(
            f"pod {pod.metadata.name}"
            for pod in found.items
            if pod.status.phase not in _OVER and excludes_others(storage, uses_of_template(pod.spec.volumes))
        )

    def _pods(self, storage: GPUStorage) -> tuple[str, ...]:
        return tuple(f"pod {pod.name}" for pod in exclusive_pods(self.pods, storage) if not pod.accessor)
