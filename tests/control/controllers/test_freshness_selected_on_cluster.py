"""Runs that must see the last run's writes in caches that hold only a selection, on a real API server."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from gpuruntime.control.controllers.freshness import Freshness, StaleCacheError
from gpuruntime.control.controllers.journal import JournalingTransport
from gpuruntime.control.controllers.reconcile_counters import ReconcileCounters
from gpuruntime.control.informers.cache import Cache
from gpuruntime.control.informers.informer import Informer
from gpuruntime.kube import dynamic
from gpuruntime.kube.builtin.core import Service, ServicePort, ServiceSpec
from gpuruntime.kube.client import Client
from gpuruntime.kube.patches import MergePatch
from gpuruntime.kube.transport.transport import Transport
from gpuruntime.meta import DynamicObject, FrozenDict, ObjectKey, ObjectMeta, ResourceKind
from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.faults import FaultProxy, HoldEvents
from tests.control.scenes import proxied, running, tried_until_fresh

SETS = ResourceKind("apps", "v1", "ReplicaSet", "replicasets", namespaced=True)


@frozen
class Scene:
    """A cache of selected services and replica sets of two namespaces, one of which is quiet, behind a proxy."""

    namespace: str
    proxy: FaultProxy
    services: Informer[Service]
    sets: Informer[DynamicObject]
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

    def seen(self) -> Service | None:
        return self.services.store.get(ObjectKey(self.namespace, "web"))

    async def label(self, app: str) -> None:
        labels = MergePatch({"metadata": {"labels": {"app": app}}})
        await self.client.patch(Service, "web", self.namespace, labels)


@asynccontextmanager
async def scene(access: ClusterAccess, namespace: str, directory: Path) -> AsyncIterator[Scene]:
    async with (
        proxied(access, directory) as (proxy, credentials),
        Transport(credentials, user_agent="tests") as transport,
    ):
        cache = Cache(transport)
        services = cache.informer(Service, namespaces=[namespace, "default"], labels="app=web")
        sets = cache.informer(dynamic(SETS), namespaces=[namespace, "default"], labels="app=web")
        client = Client(JournalingTransport(transport), field_manager="tests")
        freshness = Freshness(cache, transport, patience=0.3)
        async with running(cache):
            await cache.synced(within=60)
            yield Scene(namespace, proxy, services, sets, client, freshness, ReconcileCounters())


async def create(world: Scene) -> None:
    meta = ObjectMeta(name="web", namespace=world.namespace, labels=FrozenDict(app="web"))
    await world.client.create(Service(meta, ServiceSpec(ports=(ServicePort(80),))))


async def deselect(world: Scene) -> None:
    await world.label("other")


async def select(world: Scene) -> None:
    await world.label("web")


async def delete(world: Scene) -> None:
    await world.client.delete(Service, "web", world.namespace)


async def create_and_deselect(world: Scene) -> None:
    await create(world)
    await deselect(world)
    await world.client.patch(Service, "web", world.namespace, MergePatch({"metadata": {"annotations": {"a": "1"}}}))


# In this order: each write finds what the ones before it left.
WRITES: list[tuple[Callable[[Scene], Awaitable[None]], bool]] = [
    (create, True),
    (deselect, False),
    (select, True),
    (delete, False),
    (create_and_deselect, False),
]


async def test_no_run_starts_before_a_selecting_cache_shows_what_it_selects_and_has_let_go_of_what_it_does_not(
    kube_cluster: ClusterAccess, kube_namespace: str, tmp_path: Path
) -> None:
    async with scene(kube_cluster, kube_namespace, tmp_path) as world:
        for write, is_there in WRITES:
            with world.proxy.inject(HoldEvents(), watch=True):
                await world.run(write)
                with pytest.raises(StaleCacheError):
                    await world.settle()
            await world.settle_at_last()
            assert (world.seen() is not None) is is_there, write.__name__


async def test_a_selecting_cache_is_not_waited_for_because_of_what_it_will_never_show(
    kube_cluster: ClusterAccess, kube_namespace: str, tmp_path: Path
) -> None:
    async def elsewhere(world: Scene) -> None:
        meta = ObjectMeta(name="web", namespace=world.namespace, labels=FrozenDict(app="other"))
        await world.client.create(Service(meta, ServiceSpec(ports=(ServicePort(80),))))
        await world.label("another")
        await delete(world)

    async with scene(kube_cluster, kube_namespace, tmp_path) as world:
        with world.proxy.inject(HoldEvents(), watch=True):
            await world.run(elsewhere)
            await world.settle()

        assert (world.counters.cache_waits, world.counters.live_reads) == (0, 0)


async def test_writes_whose_answers_have_no_labels_are_waited_for_where_the_object_is_shown(
    kube_cluster: ClusterAccess, kube_namespace: str, tmp_path: Path
) -> None:
    async def scale(world: Scene) -> None:
        for name in ("web", "other"):
            there = await world.client.read_subresource(dynamic(SETS), name, world.namespace, "scale")
            # Without a version it does not matter that the controller has just written the status.
            del there["metadata"]["resourceVersion"]
            wanted = {**there, "spec": {"replicas": 1}}
            await world.client.update_subresource(dynamic(SETS), name, world.namespace, "scale", wanted)

    admin = kube_cluster.admin()
    for app in ("web", "other"):
        template = {"metadata": {"labels": {"of": app}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"replicas": 0, "selector": {"matchLabels": {"of": app}}, "template": template}
        path = f"/apis/apps/v1/namespaces/{kube_namespace}/replicasets"
        admin.create(path, {"metadata": {"name": app, "labels": {"app": app}}, "spec": spec})
    async with scene(kube_cluster, kube_namespace, tmp_path) as world:
        with world.proxy.inject(HoldEvents(), watch=True):
            await world.run(scale)
            with pytest.raises(StaleCacheError, match="replicasets/web"):
                await world.settle()
        await world.settle_at_last()

        shown = world.sets.store.get(ObjectKey(kube_namespace, "web"))
        assert shown is not None
        assert shown.body["spec"]["replicas"] == 1
