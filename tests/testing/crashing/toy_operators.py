"""Toy operators that keep child Secrets for parent ConfigMaps: a correct one, and some with a flaw each.

A parent specifies its number of children. When they exist, its `done` is set.
"""

import asyncio
from collections.abc import Callable
from uuid import uuid4

from attrs import define, field, frozen

from gpuruntime.control import (
    Manager,
    ManagerOptions,
    Reconciler,
    Result,
    RunInfo,
    Store,
    Watch,
    Writer,
    enqueue_object,
    enqueue_owner,
)
from gpuruntime.kube import Client, MergePatch, connect
from gpuruntime.kube.builtin.core import ConfigMap, Secret
from gpuruntime.meta import FrozenDict, ObjectKey, ObjectMeta, set_controller
from gpuruntime.testing.crashing import Launch, Operator, Scenario, Stage, World

WANTED = "wanted"
DONE = "done"
RECORD = "child"
CACHE_SECONDS = 1.0


async def act(stage: Stage) -> None:
    """The user asks for one child, and for two as soon as it exists."""
    metadata = ObjectMeta(name="parent", namespace=stage.namespace())
    await stage.client.create(ConfigMap(metadata, data=FrozenDict({WANTED: "1"})))
    await stage.until(lambda world: is_done(world, 1))
    await stage.client.patch(ConfigMap, "parent", stage.namespace(), MergePatch({"data": {WANTED: "2"}}))


def is_done(world: World, children: int) -> bool:
    parent = world.get(ConfigMap, "parent")
    return parent is not None and parent.data.get(DONE) == str(children)


def children_scenario(timeout: float = 60.0) -> Scenario:
    return Scenario(
        name="children",
        kinds=(ConfigMap, Secret),
        act=act,
        settled=lambda world: is_done(world, 2),
        idle_seconds=0.5,
        timeout=timeout,
    )


@frozen
class Dependencies:
    """The common part of the reconcilers."""

    maps: Store[ConfigMap]
    secrets: Store[Secret]
    client: Client

    def wanted(self, key: ObjectKey) -> tuple[ConfigMap, int] | None:
        parent = self.maps.get(key)
        return None if parent is None or WANTED not in parent.data else (parent, int(parent.data[WANTED]))

    def children(self, parent: ConfigMap) -> int:
        secrets = self.secrets.list(parent.metadata.namespace).items
        owners = (reference.uid for secret in secrets for reference in secret.metadata.owner_references)
        return sum(uid == parent.metadata.uid for uid in owners)

    async def create(self, parent: ConfigMap, *, name: str = "", generate_name: str = "") -> Secret:
        metadata = ObjectMeta(name=name, generate_name=generate_name, namespace=parent.metadata.namespace)
        return await self.client.create(Secret(set_controller(metadata, parent), type="Opaque"))

    async def note(self, parent: ConfigMap, **data: str) -> None:
        if any(parent.data.get(name) != value for name, value in data.items()):
            key = parent.metadata.key
            await self.client.patch(ConfigMap, key.name, key.namespace, MergePatch({"data": data}))


@frozen
class Correct:
    deps: Dependencies

    async def reconcile(self, key: ObjectKey, _context: RunInfo) -> Result:
        found = self.deps.wanted(key)
        if found is not None:
            parent, wanted = found
            writer = Writer(self.deps.client, field_manager="toy")
            for number in range(wanted):
                child = ObjectKey(key.namespace, f"{key.name}-{number}")
                desired = Secret(ObjectMeta(name=child.name, namespace=child.namespace), type="Opaque")
                await writer.ensure(desired, parent, live=self.deps.secrets.get(child))
            await self.deps.note(parent, **{DONE: str(wanted)})
        return Result.done()


@frozen
class NamesRandomly:
    """Names a child differently in every run."""

    deps: Dependencies

    async def reconcile(self, key: ObjectKey, _context: RunInfo) -> Result:
        found = self.deps.wanted(key)
        if found is not None:
            parent, wanted = found
            for _ in range(wanted - self.deps.children(parent)):
                await self.deps.create(parent, name=f"child-of-{key.name}.{uuid4().hex}")
            await self.deps.note(parent, **{DONE: str(wanted)})
        return Result.done()


@frozen
class RecordsTooLate:
    """Creates a child with a generated name, and records the number of children in a second step."""

    deps: Dependencies

    async def reconcile(self, key: ObjectKey, _context: RunInfo) -> Result:
        found = self.deps.wanted(key)
        if found is not None:
            parent, wanted = found
            for _ in range(wanted - int(parent.data.get(RECORD, "0"))):
                await self.deps.create(parent, generate_name="child-")
            await self.deps.note(parent, **{RECORD: str(wanted), DONE: str(wanted)})
        return Result.done()


@define
class ForgetsOnRestart:
    """Keeps only in memory that it has updated a parent."""

    deps: Dependencies
    announced: set[tuple[str, int]] = field(factory=set)

    async def reconcile(self, key: ObjectKey, context: RunInfo) -> Result:
        await Correct(self.deps).reconcile(key, context)
        found = self.deps.wanted(key)
        if found is not None and (found[0].metadata.uid, found[1]) not in self.announced:
            parent, wanted = found
            patch = MergePatch({"metadata": {"annotations": {"announced": str(wanted)}}})
            await self.deps.client.patch(ConfigMap, key.name, key.namespace, patch)
            self.announced.add((parent.metadata.uid, wanted))
        return Result.done()


@frozen
class TrustsItsCache:
    """Assumes that its writes are in its cache after a moment, with read-your-writes disabled."""

    deps: Dependencies

    async def reconcile(self, key: ObjectKey, _context: RunInfo) -> Result:
        found = self.deps.wanted(key)
        if found is not None:
            parent, wanted = found
            await self.deps.note(parent, seen=str(wanted))
            for _ in range(wanted - self.deps.children(parent)):
                await self.deps.create(parent, generate_name="child-")
                await asyncio.sleep(CACHE_SECONDS)  # this is the flaw
            await self.deps.note(parent, **{DONE: str(wanted)})
        return Result.done()


@frozen
class TemporarySurplus:
    """Creates a spare child and deletes it again: the final state is right, an intermediate one is not."""

    deps: Dependencies

    async def reconcile(self, key: ObjectKey, context: RunInfo) -> Result:
        found = self.deps.wanted(key)
        if found is not None and found[0].data.get(DONE) != str(found[1]):
            spare = await self.deps.create(found[0], generate_name="spare-")
            await self.deps.client.delete(Secret, spare.metadata.name, key.namespace)
        return await Correct(self.deps).reconcile(key, context)


def toy(
    make: Callable[[Dependencies], Reconciler[ObjectKey]], *, edge_triggered: bool = False, journal: bool = True
) -> Operator:
    """An operator with this reconciler; without the journal its reconciles do not wait for earlier writes."""

    async def run(launch: Launch) -> None:
        async with connect(launch.credentials) as plain:
            manager = Manager(launch.credentials, ManagerOptions("toy", grace=0.5))
            maps = manager.cache.informer(ConfigMap, namespaces=[launch.namespace()])
            secrets = manager.cache.informer(Secret, namespaces=[launch.namespace()])
            reconciler = make(Dependencies(maps.store, secrets.store, manager.client if journal else plain))
            parents = Watch(maps, enqueue_object(), [lambda change: not (edge_triggered and change.initial)])
            children = Watch(secrets, enqueue_owner(ConfigMap.KIND), [lambda _: not edge_triggered])
            manager.add_controller("toy", reconciler, [parents, children])
            await manager.run()

    return run
