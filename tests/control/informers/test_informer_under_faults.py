"""Informers while the control plane breaks, or the connection to it. Tests that break one share a cluster."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gpuruntime.aio.backoff import BackoffSchedule
from gpuruntime.control.informers.cache import Cache
from gpuruntime.control.informers.reflector import ReflectorSettings
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.kube.transport.transport import Transport
from gpuruntime.testing import AdminClient, ClusterAccess, LocalCluster
from gpuruntime.testing.cluster.namespaces import create_namespace
from gpuruntime.testing.faults import CutAfterBytes, CutAfterEvents, DropRequests, FaultProxy
from tests.control.scenes import eventually, open_transport, proxied, running, watch

IMPATIENT = BackoffSchedule(base=0.01, factor=2, cap=0.1, reset=120)
ROOT_CERTIFICATE = "kube-root-ca.crt"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("cluster"), nodes=()) as cluster:
        yield cluster


def create_map(admin: AdminClient, namespace: str, name: str) -> Any:
    return admin.create(f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": name}})


def delete_map(admin: AdminClient, namespace: str, name: str) -> None:
    admin.delete(f"/api/v1/namespaces/{namespace}/configmaps/{name}")


async def test_an_api_server_that_dies_and_comes_back_costs_no_change(cluster: LocalCluster) -> None:
    admin = cluster.access.admin()
    create_namespace(admin, "dying")
    create_map(admin, "dying", "first")
    async with open_transport(cluster.access) as transport, AsyncExitStack() as stack:
        caches = {
            streaming: Cache(transport, settings=ReflectorSettings(stream_lists=streaming))
            for streaming in (False, True)
        }
        witnesses = [await watch(cache.informer(ConfigMap, namespaces=["dying"])) for cache in caches.values()]
        for cache in caches.values():
            await stack.enter_async_context(running(cache))
            await cache.synced()

        async def dies(watch_list: bool, before: str, after: str) -> None:
            await asyncio.to_thread(cluster.signal_component, "kube-apiserver", signal.SIGKILL)
            await asyncio.to_thread(cluster.stop_component, "kube-apiserver")
            flags = {"feature-gates": f"WatchList={str(watch_list).lower()}"}
            await asyncio.to_thread(cluster.start_component, "kube-apiserver", flags)
            await asyncio.to_thread(create_map, admin, "dying", after)
            await asyncio.to_thread(delete_map, admin, "dying", before)
            for witness in witnesses:
                await witness.until(lambda changes: ("deleted", before) in changes)

        async def requests_of_a_newcomer(streaming: bool, name: str) -> int:
            newcomer = caches[streaming].informer(ConfigMap, namespaces=["dying"], fields=f"metadata.name={name}")
            await newcomer.synced()
            assert [key.name for key in newcomer.store] == [name]
            return newcomer.health[0].requests

        await dies(watch_list=False, before="first", after="second")
        refused = await requests_of_a_newcomer(streaming=True, name="second")
        await dies(watch_list=True, before="second", after="third")
        streamed = await requests_of_a_newcomer(streaming=True, name="third")
        in_pages = await requests_of_a_newcomer(streaming=False, name="third")

        for witness in witnesses:
            # A watch that is resumed shows the addition first, a new list the deletion.
            assert sorted(change for change in witness.changes if change[1] != ROOT_CERTIFICATE) == [
                ("added", "first"),
                ("added", "second"),
                ("added", "third"),
                ("deleted", "first"),
                ("deleted", "second"),
            ]
        assert (refused, streamed, in_pages) == (3, 1, 2)


async def test_a_hung_api_server_is_noticed_and_nothing_is_missed(cluster: LocalCluster) -> None:
    admin = cluster.access.admin()
    create_namespace(admin, "hung")
    async with open_transport(cluster.access) as transport:
        cache = Cache(transport, settings=ReflectorSettings(idle_seconds=1.0))
        informer = cache.informer(ConfigMap, namespaces=["hung"])
        witness = await watch(informer)
        async with running(cache):
            await informer.synced()
            requests = informer.health[0].requests

            await asyncio.to_thread(cluster.signal_component, "kube-apiserver", signal.SIGSTOP)
            await eventually(lambda: informer.health[0].requests > requests)
            await asyncio.to_thread(cluster.signal_component, "kube-apiserver", signal.SIGCONT)
            await asyncio.to_thread(create_map, admin, "hung", "after")
            await witness.until(lambda changes: ("added", "after") in changes)


@asynccontextmanager
async def through_proxy(access: ClusterAccess, directory: Path) -> AsyncIterator[tuple[FaultProxy, Transport]]:
    """A transport through a proxy that can inject faults."""
    async with (
        proxied(access, directory) as (proxy, credentials),
        Transport(credentials, user_agent="tests") as transport,
    ):
        yield proxy, transport


async def test_a_history_that_was_compacted_away_is_made_up_for_by_comparing(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    admin = cluster.access.admin()
    create_namespace(admin, "compacted")
    create_map(admin, "compacted", "doomed")
    create_map(admin, "compacted", "kept")
    async with through_proxy(cluster.access, tmp_path) as (proxy, transport):
        cache = Cache(transport, settings=ReflectorSettings(backoff=IMPATIENT))
        informer = cache.informer(ConfigMap, namespaces=["compacted"])
        witness = await watch(informer)
        async with running(cache):
            await informer.synced()
            with proxy.inject(DropRequests(), watch=True), proxy.inject(CutAfterEvents(0), watch=True):
                await asyncio.to_thread(delete_map, admin, "compacted", "doomed")
                await asyncio.to_thread(create_map, admin, "compacted", "born")
                await asyncio.to_thread(cluster.expire_resource_versions)
            await witness.until(lambda changes: ("added", "born") in changes)
            await eventually(lambda: informer.health[0].relists == {"start": 1, "expired": 1})

            ours = [change for change in witness.changes if change[1] != ROOT_CERTIFICATE]
            assert sorted(ours[:2]) == [("added", "doomed"), ("added", "kept")]
            assert ours[2:] == [("deleted", "doomed"), ("added", "born")]
            assert sorted({key.name for key in informer.store} - {ROOT_CERTIFICATE}) == ["born", "kept"]


@pytest.mark.parametrize("fault", [CutAfterBytes(100), CutAfterBytes(0), CutAfterEvents(2)])
async def test_a_stream_cut_anywhere_again_and_again_loses_and_repeats_nothing(
    kube_cluster: ClusterAccess, kube_namespace: str, tmp_path: Path, fault: CutAfterBytes | CutAfterEvents
) -> None:
    admin = kube_cluster.admin()
    async with through_proxy(kube_cluster, tmp_path) as (proxy, transport):
        cache = Cache(transport, settings=ReflectorSettings(resume_seconds=0.01, backoff=IMPATIENT))
        informer = cache.informer(ConfigMap, namespaces=[kube_namespace])
        witness = await watch(informer)
        async with running(cache):
            await informer.synced()
            for number in range(20):
                with proxy.inject(fault, watch=True):
                    await asyncio.to_thread(create_map, admin, kube_namespace, f"map-{number}")
            await witness.until(lambda changes: ("added", "map-19") in changes)

            ours = [name for _, name in witness.changes if name.startswith("map-")]
            assert ours == [f"map-{number}" for number in range(20)]
            assert informer.health[0].relists == {"start": 1}
