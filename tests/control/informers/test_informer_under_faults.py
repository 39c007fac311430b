"""Informers while the control plane breaks: each test has a cluster of its own to break."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gpuruntime.aio.backoff import BackoffSchedule
from gpuruntime.control.informers.cache import Cache
from gpuruntime.control.informers.reflector import ReflectorSettings
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.kube.transport.transport import Transport
from gpuruntime.testing import AdminClient, LocalCluster
from gpuruntime.testing.faults import CutAfterBytes, CutAfterEvents, DropRequests, FaultProxy
from tests.control.scenes import open_transport, proxied, running, watch

IMPATIENT = BackoffSchedule(base=0.01, factor=2, cap=0.1, reset=120)
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path, nodes=()) as cluster:
        yield cluster


def create_map(admin: AdminClient, name: str) -> Any:
    return admin.create(MAPS, {"metadata": {"name": name}})


@pytest.mark.parametrize(
    ("streaming", "watch_list", "requests"),
    [(False, "true", 2), (True, "true", 1), (True, "false", 3)],
    ids=["in pages", "streamed", "streaming refused"],
)
async def test_an_api_server_that_dies_and_comes_back_costs_no_change(
    cluster: LocalCluster, streaming: bool, watch_list: str, requests: int
) -> None:
    admin = cluster.access.admin()
    create_map(admin, "before")
    async with open_transport(cluster.access) as transport:
        cache = Cache(transport, settings=ReflectorSettings(stream_lists=streaming))
        informer = cache.informer(ConfigMap, namespaces=["default"])
        witness = await watch(informer)
        async with running(cache):
            await informer.synced()

            await asyncio.to_thread(cluster.signal_component, "kube-apiserver", signal.SIGKILL)
            await asyncio.to_thread(cluster.stop_component, "kube-apiserver")
            flags = {"feature-gates": f"WatchList={watch_list}"}
            await asyncio.to_thread(cluster.start_component, "kube-apiserver", flags)
            await asyncio.to_thread(create_map, admin, "after")
            await asyncio.to_thread(admin.delete, f"{MAPS}/before")
            await witness.until(lambda changes: ("deleted", "before") in changes)
            newcomer = cache.informer(ConfigMap, namespaces=["default"], fields="metadata.name=after")
            await newcomer.synced()

            ours = [change for change in witness.changes if change[1] in {"before", "after"}]
            assert ours == [("added", "before"), ("added", "after"), ("deleted", "before")]
            assert [key.name for key in newcomer.store] == ["after"]
            assert newcomer.health[0].requests == requests


async def test_a_hung_api_server_is_noticed_and_nothing_is_missed(cluster: LocalCluster) -> None:
    admin = cluster.access.admin()
    async with open_transport(cluster.access) as transport:
        cache = Cache(transport, settings=ReflectorSettings(idle_seconds=1.0))
        informer = cache.informer(ConfigMap, namespaces=["default"])
        witness = await watch(informer)
        async with running(cache):
            await informer.synced()
            requests = informer.health[0].requests

            await asyncio.to_thread(cluster.signal_component, "kube-apiserver", signal.SIGSTOP)
            while informer.health[0].requests == requests:  # noqa: ASYNC110 - a plain figure, there is no event
                await asyncio.sleep(0.05)
            await asyncio.to_thread(cluster.signal_component, "kube-apiserver", signal.SIGCONT)
            await asyncio.to_thread(create_map, admin, "after")
            await witness.until(lambda changes: ("added", "after") in changes)


@asynccontextmanager
async def through_proxy(cluster: LocalCluster, directory: Path) -> AsyncIterator[tuple[FaultProxy, Transport]]:
    """A transport through a proxy that can inject faults."""
    async with (
        proxied(cluster.access, directory) as (proxy, credentials),
        Transport(credentials, user_agent="tests") as transport,
    ):
        yield proxy, transport


async def test_a_history_that_was_compacted_away_is_made_up_for_by_comparing(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    admin = cluster.access.admin()
    create_map(admin, "doomed")
    create_map(admin, "kept")
    async with through_proxy(cluster, tmp_path) as (proxy, transport):
        cache = Cache(transport, settings=ReflectorSettings(backoff=IMPATIENT))
        informer = cache.informer(ConfigMap, namespaces=["default"])
        witness = await watch(informer)
        async with running(cache):
            await informer.synced()
            with proxy.inject(DropRequests(), watch=True), proxy.inject(CutAfterEvents(0), watch=True):
                await asyncio.to_thread(admin.delete, f"{MAPS}/doomed")
                await asyncio.to_thread(create_map, admin, "born")
                await asyncio.to_thread(cluster.expire_resource_versions)
            await witness.until(lambda changes: ("added", "born") in changes)

            ours = [change for change in witness.changes if change[1] != "kube-root-ca.crt"]
            assert sorted(ours[:2]) == [("added", "doomed"), ("added", "kept")]
            assert ours[2:] == [("deleted", "doomed"), ("added", "born")]
            assert sorted(key.name for key in informer.store) == ["born", "kept", "kube-root-ca.crt"]
            assert informer.health[0].relists == {"start": 1, "expired": 1}


@pytest.mark.parametrize("fault", [CutAfterBytes(100), CutAfterBytes(0), CutAfterEvents(2)])
async def test_a_stream_cut_anywhere_again_and_again_loses_and_repeats_nothing(
    cluster: LocalCluster, tmp_path: Path, fault: CutAfterBytes | CutAfterEvents
) -> None:
    admin = cluster.access.admin()
    async with through_proxy(cluster, tmp_path) as (proxy, transport):
        cache = Cache(transport, settings=ReflectorSettings(resume_seconds=0.01, backoff=IMPATIENT))
        informer = cache.informer(ConfigMap, namespaces=["default"])
        witness = await watch(informer)
        async with running(cache):
            await informer.synced()
            for number in range(20):
                with proxy.inject(fault, watch=True):
                    await asyncio.to_thread(create_map, admin, f"map-{number}")
            await witness.until(lambda changes: ("added", "map-19") in changes)

            ours = [name for _, name in witness.changes if name.startswith("map-")]
            assert ours == [f"map-{number}" for number in range(20)]
            assert informer.health[0].relists == {"start": 1}
