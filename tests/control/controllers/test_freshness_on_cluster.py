"""Runs that must see the last run's writes, on a real API server whose watches are held back."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve, frozen

from gpuruntime.control.controllers.freshness import Freshness, StaleCacheError
from gpuruntime.control.controllers.journal import JournalingTransport
from gpuruntime.control.controllers.reconcile_counters import ReconcileCounters
from gpuruntime.control.informers.cache import Cache
from gpuruntime.control.informers.consistent_read import wait_for_consistent_read
from gpuruntime.control.informers.store import Store
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.kube.builtin.core import ConfigMap, ResourceQuota
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import UnavailableError
from gpuruntime.kube.patches import MergePatch
from gpuruntime.kube.transport.transport import Transport
from gpuruntime.meta import FrozenDict, ObjectKey, ObjectMeta
from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.cluster.access import kubeconfig_document
from gpuruntime.testing.faults import ClientCertificate, FaultProxy, HoldEvents, LoseResponses
from tests.control.scenes import running, tried_until_fresh

FINALIZER = "example.org/tests"


@frozen
class Scene:
    """A cache behind a proxy, and a client whose writes are noted as those of one key."""

    namespace: str
    proxy: FaultProxy
    transport: Transport
    cache: Cache
    client: Client
    freshness: Freshness
    counters: ReconcileCounters

    async def run(self, work: Callable[["Scene"], Awaitable[Any]]) -> None:
        with self.freshness.recording("key"):
            await work(self)

    async def settle(self) -> None:
        await self.freshness.settle("key", self.counters)

    async def settle_at_last(self) -> None:
        await tried_until_fresh(self.settle)

    @property
    def maps(self) -> Store[ConfigMap]:
        return self.cache.informer(ConfigMap, namespaces=[self.namespace]).store

    def new(self, name: str = "", **metadata: Any) -> ConfigMap:
        return ConfigMap(ObjectMeta(name=name, namespace=self.namespace, **metadata))

    def seen(self, name: str) -> ConfigMap | None:
        return self.maps.get(ObjectKey(self.namespace, name))

    async def live(self, name: str) -> ConfigMap:
        return await self.client.get(ConfigMap, name, self.namespace)


@asynccontextmanager
async def scene(access: ClusterAccess, namespace: str, directory: Path) -> AsyncIterator[Scene]:
    identity = ClientCertificate(access.certificate, access.key)
    async with FaultProxy(access.server, access.authority, identity=identity) as proxy:
        kubeconfig = directory / "proxy.kubeconfig"
        kubeconfig.write_text(json.dumps(kubeconfig_document(proxy.url, b"", {})))
        async with Transport(from_kubeconfig(kubeconfig), user_agent="tests") as transport:
            cache = Cache(transport)
            cache.informer(ConfigMap, namespaces=[namespace])
            cache.informer(ResourceQuota)
            client = Client(JournalingTransport(transport), field_manager="tests")
            freshness = Freshness(cache, transport, patience=0.3)
            async with running(cache):
                await cache.synced(within=60)
                yield Scene(namespace, proxy, transport, cache, client, freshness, ReconcileCounters())


async def create_in_tasks(world: Scene) -> None:
    async with asyncio.TaskGroup() as tasks:
        for name in ("updated", "patched", "deleted", "swept"):
            tasks.create_task(world.client.create(world.new(name)))
        for name in ("finalized", "released"):
            tasks.create_task(world.client.create(world.new(name, finalizers=(FINALIZER,))))


async def generate(world: Scene) -> None:
    await world.client.create(world.new(generate_name="generated-"))


async def update(world: Scene) -> None:
    await world.client.update(evolve(await world.live("updated"), data=FrozenDict({"a": "1"})))


async def patch(world: Scene) -> None:
    await world.client.patch(ConfigMap, "patched", world.namespace, MergePatch({"data": {"a": "1"}}))


async def delete(world: Scene) -> None:
    await world.client.delete(ConfigMap, "deleted", world.namespace)


async def delete_finalized(world: Scene) -> None:
    await world.client.delete(ConfigMap, "finalized", world.namespace)


async def finish(world: Scene) -> None:
    """Take the last finalizer from an object that is to be deleted."""
    live = await world.live("finalized")
    await world.client.update(evolve(live, metadata=evolve(live.metadata, finalizers=())))


async def replace(world: Scene) -> None:
    await world.client.delete(ConfigMap, "updated", world.namespace)
    await world.client.create(world.new("updated", labels=FrozenDict({"second": "yes"})))


async def sweep(world: Scene) -> None:
    await world.client.delete_all(ConfigMap, world.namespace, "second=yes")


def is_second(obj: ConfigMap | None) -> bool:
    return obj is not None and obj.metadata.labels.get("second") == "yes"


def is_ending(obj: ConfigMap | None) -> bool:
    return obj is not None and obj.metadata.deletion_timestamp is not None


# In this order: each write finds what the ones before it left.
WRITES: list[tuple[Callable[[Scene], Awaitable[None]], Callable[[Scene], bool]]] = [
    (create_in_tasks, lambda world: all(map(world.seen, ("updated", "patched", "deleted", "finalized", "released")))),
    (generate, lambda world: any(key.name.startswith("generated-") for key in world.maps)),
    (update, lambda world: getattr(world.seen("updated"), "data", None) == {"a": "1"}),
    (patch, lambda world: getattr(world.seen("patched"), "data", None) == {"a": "1"}),
    (delete, lambda world: world.seen("deleted") is None),
    (delete_finalized, lambda world: is_ending(world.seen("finalized"))),
    (finish, lambda world: world.seen("finalized") is None),
    (replace, lambda world: is_second(world.seen("updated"))),
    (sweep, lambda world: world.seen("updated") is None),
]


async def test_no_run_starts_before_the_cache_shows_what_the_last_one_wrote_whatever_it_was(
    kube_cluster: ClusterAccess, kube_namespace: str, tmp_path: Path
) -> None:
    async with scene(kube_cluster, kube_namespace, tmp_path) as world:
        for write, shown in WRITES:
            with world.proxy.inject(HoldEvents(), watch=True):
                await world.run(write)
                with pytest.raises(StaleCacheError):
                    await world.settle()
                assert not shown(world), write.__name__
            await world.settle_at_last()
            assert shown(world), write.__name__

        live = await world.live("released")
        await world.client.update(evolve(live, metadata=evolve(live.metadata, finalizers=())))


async def test_writes_of_a_status_are_waited_for_and_dry_runs_are_not(
    kube_cluster: ClusterAccess, kube_namespace: str, tmp_path: Path
) -> None:
    async def report(world: Scene) -> None:
        status = MergePatch({"status": {"used": {"pods": "7"}}})
        await world.client.patch(ResourceQuota, "quota", kube_namespace, status, subresource="status")

    async def dry_run(world: Scene) -> None:
        await world.client.create(world.new("never"), dry_run=True)
        await world.client.delete(ConfigMap, "there", kube_namespace, dry_run=True)

    admin = kube_cluster.admin()
    admin.create(f"/api/v1/namespaces/{kube_namespace}/configmaps", {"metadata": {"name": "there"}})
    quota = {"metadata": {"name": "quota"}, "spec": {"hard": {"pods": "9"}}}
    admin.create(f"/api/v1/namespaces/{kube_namespace}/resourcequotas", quota)
    async with scene(kube_cluster, kube_namespace, tmp_path) as world:
        with world.proxy.inject(HoldEvents(), watch=True):
            await world.run(report)
            with pytest.raises(StaleCacheError, match="resourcequotas/quota"):
                await world.settle()
        await world.settle_at_last()
        waits = world.counters.cache_waits

        with world.proxy.inject(HoldEvents(), watch=True):
            await world.run(dry_run)
            await world.settle()
        assert world.counters.cache_waits == waits


async def test_after_a_lost_answer_the_next_run_finds_what_was_made_and_makes_it_once(
    kube_cluster: ClusterAccess, kube_namespace: str, tmp_path: Path
) -> None:
    async with scene(kube_cluster, kube_namespace, tmp_path) as world:
        with (
            world.proxy.inject(HoldEvents(), watch=True),
            world.proxy.inject(LoseResponses(times=1), method="POST"),
        ):
            with pytest.raises(UnavailableError):
                await world.run(generate)
            with pytest.raises(StaleCacheError):
                await world.settle()
        await world.settle_at_last()

        made = [key.name for key in world.maps if key.name.startswith("generated-")]
        assert len(made) == 1
        assert world.proxy.counts["POST", "configmaps"] == 1


async def test_a_lagging_cache_is_waited_for_before_a_new_leader_acts(
    kube_cluster: ClusterAccess, kube_namespace: str, tmp_path: Path
) -> None:
    admin, path = kube_cluster.admin(), f"/api/v1/namespaces/{kube_namespace}/configmaps"
    for name in ("updated", "deleted", "replaced"):
        admin.create(path, {"metadata": {"name": name}})
    async with scene(kube_cluster, kube_namespace, tmp_path) as world:
        informer = world.cache.informer(ConfigMap, namespaces=[kube_namespace])
        with world.proxy.inject(HoldEvents(), watch=True):
            admin.create(path, {"metadata": {"name": "created"}})
            admin.merge(f"{path}/updated", {"data": {"a": "1"}})
            admin.delete(f"{path}/deleted")
            admin.delete(f"{path}/replaced")
            replaced = admin.create(path, {"metadata": {"name": "replaced"}})
            with pytest.raises(TimeoutError):
                await wait_for_consistent_read(informer, world.transport, within=0.3)
        await wait_for_consistent_read(informer, world.transport)

        assert world.seen("created") is not None
        assert getattr(world.seen("updated"), "data", None) == {"a": "1"}
        assert world.seen("deleted") is None
        known = world.maps.version_of(ObjectKey(kube_namespace, "replaced"))
        assert known == (replaced["metadata"]["uid"], replaced["metadata"]["resourceVersion"])
