"""A crash scenario: a storage is mounted on request, grows, goes on to a unit of kubectl, and is deleted."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from attrs import evolve, frozen

from gpuruntime.api.gpustorage import READ_WRITE_ONCE_POD, GPUStorage, GPUStorageSpec, StorageAccessor, StoragePrepare
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import UNIT_LABEL
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.api.operation import Operation, operation_name
from gpuruntime.api.reasons import READY
from gpuruntime.control import Informer
from gpuruntime.desired.storage.locks import lock_of
from gpuruntime.desired.storage.volume_use import uses_of_template
from gpuruntime.kube import MergePatch
from gpuruntime.kube.builtin.apps import Deployment
from gpuruntime.kube.builtin.batch import Job
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.kube.builtin.volumes import PersistentVolumeClaim
from gpuruntime.meta import ObjectKey, ObjectMeta
from gpuruntime.meta.frozen_mapping import freeze
from gpuruntime.reconcilers.gpustorage.reconciler import install_gpustorage
from gpuruntime.service.objects.delete import DeleteObject
from gpuruntime.service.objects.update import UpdateObject
from gpuruntime.service.operations.record import has_ended
from gpuruntime.service.reads.informers import watch_operations
from gpuruntime.service.storage.requests import STORAGES, CreateStorage
from gpuruntime.service.units.create import CreateUnit
from gpuruntime.service.units.delete import DeleteUnit
from gpuruntime.service.units.lifecycle import ACTIVE_UNITS
from gpuruntime.testing.crashing import Operator, Scenario, Stage, World
from tests.mount_scenes import mounting
from tests.reconcilers.gpustorage.crash_scenes import storage_options
from tests.reconcilers.storage_promises import KINDS, StoragePromises, final_state, storage_named
from tests.service.crash_scenes import HANDOFF, Steps, serving
from tests.service.service_scenes import Product

__all__ = ["handed_on", "storing"]

_REQUESTS = 6
_STAYS_SECONDS = 1.5
_SLOW = "testing.gpuruntime.local/slow-to-end"
_PREPARE = StoragePrepare(from_image="busybox", args=("fill",))


@frozen
class _Customer:
    """Sends each request when the state is there that it is about. What was recorded before is sent again at once."""

    active: str
    storages: Informer[GPUStorage]
    units: Informer[GPUUnit]
    operations: Informer[Operation]

    @classmethod
    def of(cls, product: Product, active: str) -> "_Customer":
        storages, units = product.service.of(STORAGES).reads.informer, product.service.unit_reads.informer
        return cls(active, storages, units, watch_operations(product.manager.cache, active))

    async def sends(
        self, operation_id: str, request: Callable[[str], Awaitable[Any]], *waits: Callable[[], Awaitable[None]]
    ) -> None:
        await self.operations.synced()
        if self.operations.store.get(ObjectKey(self.active, operation_name(operation_id))) is None:
            for wait in waits:
                await wait()
        await request(operation_id)

    async def storage(self, holds: Callable[[GPUStorage], bool]) -> None:
        def is_so(found: GPUStorage | None) -> bool:
            return found is not None and holds(found)

        await self.storages.until(lambda store: is_so(store.get(ObjectKey(self.active, "data"))))

    async def unit(self, name: str, holds: Callable[[GPUUnit | None], bool]) -> None:
        await self.units.until(lambda store: holds(store.get(ObjectKey(self.active, name))))


def storing(storage_class: str) -> Operator:
    """The whole product, and a customer that uses a storage of a class."""

    def steps(product: Product, active: str, stock: str) -> Steps:
        service, customer = product.service, _Customer.of(product, active)
        storages, units = service.of(STORAGES), service.units
        spec = GPUStorageSpec(
            size="1Gi",
            storage_class_name=storage_class,
            access_mode=READ_WRITE_ONCE_POD,
            prepare=_PREPARE,
            accessor=StorageAccessor(enabled=True),
        )
        order = CreateUnit("a", mounting("data"), active, stock, cold_start=True)
        larger = UpdateObject("data", active, freeze({"spec": {"size": "2Gi"}}))
        without = UpdateObject("a", active, freeze({"spec": {"storageMounts": []}}))
        return (
            lambda: customer.sends("store", lambda key: storages.create(key, CreateStorage("data", spec, active))),
            # Not ready yet: the storage is locked for the unit, which waits.
            lambda: customer.sends("order-a", lambda key: units.create(key, order)),
            lambda: customer.sends(
                "grow", lambda key: storages.update(key, larger), lambda: customer.unit("a", _is_ready)
            ),
            lambda: customer.sends(
                "unmount",
                lambda key: service.of(ACTIVE_UNITS).update(key, without),
                lambda: customer.unit("b", lambda found: found is not None),
            ),
            lambda: customer.sends(
                "return-b",
                lambda key: units.delete(key, DeleteUnit("b", active)),
                lambda: customer.unit("b", _is_ready),
            ),
            lambda: customer.sends(
                "drop",
                lambda key: storages.delete(key, DeleteObject("data", active)),
                lambda: customer.unit("b", lambda found: found is None),
                lambda: customer.storage(lambda found: lock_of(found.metadata) is None),
            ),
        )

    def install(product: Product, active: str, stock: str) -> None:
        install_gpustorage(product.manager, storage_options(Namespaces((active,), (stock,), active)))

    return serving(steps, install)


def _is_ready(unit: GPUUnit | None) -> bool:
    return unit is not None and unit.status.phase == READY


async def _create_rival(stage: Stage) -> None:
    """With kubectl: a unit that wants the storage while another one has it, whose pod takes its time to end."""
    active = stage.namespace("active")
    await stage.until(lambda world: _is_ready(world.get(GPUUnit, "a", "active")) and bool(_pods_of_a(world)))
    pod = _pods_of_a(stage.recorder.world)[0].metadata.name
    await stage.client.patch(Pod, pod, active, MergePatch({"metadata": {"finalizers": [_SLOW]}}))
    await stage.client.create(GPUUnit(ObjectMeta(name="b", namespace=active), mounting("data")))
    await stage.until(_has_unmounted)
    # The pod stays longer than a refused release takes to be tried again: a lock that goes too early goes now.
    await asyncio.sleep(_STAYS_SECONDS)
    await stage.client.patch(Pod, pod, active, MergePatch({"metadata": {"finalizers": None}}))


def _pods_of_a(world: World) -> list[Pod]:
    """The pods of the first unit that mount the storage."""
    pods = world.list(Pod, "active")
    return [pod for pod in pods if pod.metadata.labels.get(UNIT_LABEL) == "a" and uses_of_template(pod.spec.volumes)]


def _has_unmounted(world: World) -> bool:
    """The first unit's pod is ending, and the request for that is over."""
    operation = world.get(Operation, operation_name("unmount"), "active")
    is_over = operation is not None and has_ended(operation) and operation.spec.request is None
    return is_over and all(pod.metadata.deletion_timestamp is not None for pod in _pods_of_a(world))


def _is_settled(world: World) -> bool:
    operations = world.list(Operation)
    unit = world.get(GPUUnit, "a", "active")
    return (
        storage_named(world, "data") is None
        and world.get(GPUUnit, "b", "active") is None
        and unit is not None
        and _is_ready(unit)
        and not unit.spec.storage_mounts
        and not [obj for kind in (PersistentVolumeClaim, Job) for obj in world.list(kind)]
        and len(world.list(Pod)) == len(world.list(Deployment)) == 1
        and len(operations) == _REQUESTS
        and all(has_ended(operation) and operation.spec.request is None for operation in operations)
    )


def handed_on() -> Scenario:
    """The scenario; its promises remember what happened, so each exploration has its own."""
    return evolve(
        HANDOFF,
        name="a storage is mounted on request, grows, goes on to another unit, and is deleted",
        kinds=(*KINDS, Operation),
        act=_create_rival,
        settled=_is_settled,
        invariant=StoragePromises().broken,
        observe=final_state,
        # Every Operation has ended by then: a lease need not be waited for.
        idle_seconds=2.0,
    )
