"""Many callers, two replicas, few storages: by the history of its pods, a storage has one writer at all times."""

import asyncio
from random import Random

import pytest
from attrs import field, frozen

from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.control import Change, Informer, condition_true, wait_for
from gpuruntime.desired.storage.locks import Lock, lock_of
from gpuruntime.desired.storage.volume_use import uses_of_template
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.meta import ObjectKey, ObjectMeta
from gpuruntime.service.errors import StorageInUseError
from gpuruntime.service.units.delete import DeleteUnit
from tests.mount_scenes import Storages, mounting
from tests.service.service_scenes import Product, ServiceWorld, looking_at

HOT_LOOP = "hot loop detected, write held back"


@frozen
class History:
    """The pods that have each volume, from event to event; `broken` has the volumes that two of them had at once."""

    writers: dict[str, set[str]] = field(factory=dict)
    broken: list[str] = field(factory=list)
    used: set[str] = field(factory=set)

    def on_change(self, change: Change[Pod]) -> None:
        for state in (change.before, change.after):
            for use in () if state is None else uses_of_template(state.spec.volumes):
                self._note(use.claim, change.key.name, is_there=change.after is not None)

    def _note(self, claim: str, pod: str, *, is_there: bool) -> None:
        writers = self.writers.setdefault(claim, set())
        (writers.add if is_there else writers.discard)(pod)
        self.used.update([claim] if is_there else [])
        if len(writers) > 1:
            self.broken.append(f"{claim}: {', '.join(sorted(writers))}")


@frozen
class Callers:
    """Callers that want storages again and again, over either replica, or as users of kubectl."""

    world: ServiceWorld
    replicas: tuple[Product, Product]
    units: Informer[GPUUnit]
    storages: Informer[GPUStorage]
    names: list[str]
    refused: list[str] = field(factory=list)

    async def call(self, number: int, rounds: int) -> None:
        random = Random(number)
        for turn in range(rounds):
            name = f"unit-{number}-{turn}"
            mounts = random.sample(self.names, random.choice((1, 1, 2)))
            if number % 3:
                await self._order(self.replicas[number % 2], name, mounts)
            else:
                wanted = GPUUnit(ObjectMeta(name=name, namespace=self.world.active), mounting(*mounts))
                await self.world.admin.create(wanted)
            await wait_for(self.units, self._key(name), condition_true("Ready"), within=600)
            await self.replicas[turn % 2].service.units.delete(f"bye-{name}", DeleteUnit(name, self.world.active))

    async def _order(self, replica: Product, name: str, mounts: list[str]) -> None:
        request = self.world.creates(name, mounting(*mounts), cold_start=True)
        while True:
            try:
                await replica.service.units.create(f"create-{name}", request)
            except StorageInUseError as error:
                self.refused.append(str(error))
                await self.storages.until(lambda _: all(self._lock(mount) is None for mount in mounts))
            else:
                return

    def _lock(self, name: str) -> Lock | None:
        found = self.storages.store.get(self._key(name))
        return None if found is None else lock_of(found.metadata)

    def _key(self, name: str) -> ObjectKey:
        return ObjectKey(self.world.active, name)


async def contend(world: ServiceWorld, storages: Storages, callers: int, count: int, rounds: int) -> None:
    names = [f"data-{number}" for number in range(count)]
    for name in names:
        storages.make(name)
    async with (
        world.product(name="one") as one,
        world.product(name="two") as two,
        looking_at(world.access, GPUUnit, world.active) as units,
        looking_at(world.access, GPUStorage, world.active) as locks,
        looking_at(world.access, Pod, world.active) as pods,
    ):
        history = History()
        await pods.subscribe(history.on_change)
        crowd = Callers(world, (one, two), units, locks, names)

        async with asyncio.TaskGroup() as tasks:
            for number in range(callers):
                tasks.create_task(crowd.call(number, rounds))
        await locks.until(lambda store: not any(lock_of(found.metadata) for found in store.list().items))

    assert history.broken == []
    assert history.used == set(names)
    assert crowd.refused
    assert (await world.admin.list(Pod, world.active)).items == ()


async def test_a_storage_has_one_writer_at_all_times(
    world: ServiceWorld, storages: Storages, caplog: pytest.LogCaptureFixture
) -> None:
    await contend(world, storages, callers=15, count=4, rounds=1)

    assert HOT_LOOP not in caplog.messages


@pytest.mark.soak
@pytest.mark.timeout(1800)
async def test_each_of_ten_storages_has_one_writer_at_all_times_with_fifty_callers(
    world: ServiceWorld, storages: Storages, caplog: pytest.LogCaptureFixture
) -> None:
    await contend(world, storages, callers=50, count=10, rounds=4)

    assert HOT_LOOP not in caplog.messages
