"""The recorder misses no change."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientSession
from attrs import evolve

from gpuruntime.kube.builtin.core import ConfigMap, Secret
from gpuruntime.meta import ResourceKind
from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.change_signal import ChangeSignal
from gpuruntime.testing.crashing.change_recorder import ChangeRecorder, RecordingError, recording_changes
from gpuruntime.testing.crashing.world import moments
from gpuruntime.testing.faults.definitions import CutAfterEvents
from gpuruntime.testing.faults.proxy import ClientCertificate, FaultProxy
from gpuruntime.testing.scripted.answers import Answer, Stall, html_page, kube_status, respond, watch_stream
from gpuruntime.testing.scripted.server import ScriptedServer
from gpuruntime.testing.scripted.watch_events import added

KINDS = [ConfigMap.KIND, Secret.KIND]
LISTED = respond(200, {"kind": "ConfigMapList", "metadata": {"resourceVersion": "5"}, "items": []})
MAPS = "/api/v1/namespaces/home/configmaps"
BUSY = (html_page(503, "Service Unavailable"), kube_status(429, "TooManyRequests", "storage is (re)initializing"))


@pytest.fixture
async def proxy(kube_cluster: ClusterAccess) -> AsyncIterator[FaultProxy]:
    identity = ClientCertificate(kube_cluster.certificate, kube_cluster.key)
    async with FaultProxy(kube_cluster.server, kube_cluster.authority, identity=identity) as proxy:
        yield proxy


def names_of(recorder: ChangeRecorder) -> list[tuple[str, str]]:
    return [(event.type, event.ref.name) for event in recorder.events]


async def test_short_lived_states_are_recorded_in_order_across_kinds(
    kube_cluster: ClusterAccess, kube_namespace: str, proxy: FaultProxy
) -> None:
    admin, home = kube_cluster.admin(), f"/api/v1/namespaces/{kube_namespace}"

    async with recording_changes(kube_cluster, KINDS, {"main": kube_namespace}, proxy.changes) as recorder:
        for number in range(5):
            admin.create(f"{home}/configmaps", {"metadata": {"name": f"map-{number}"}})
            admin.create(f"{home}/secrets", {"metadata": {"name": f"secret-{number}"}})
            admin.delete(f"{home}/configmaps/map-{number}")
        # Objects that were created and deleted leave nothing on the server to wait for.
        await proxy.changes.until(lambda: ("DELETED", "map-4") in names_of(recorder))
        last = await recorder.catch_up()

    states = list(moments(recorder.start, recorder.events))
    changes = [(moment.event.type, moment.event.ref.name) for moment in states if "kube-root" not in str(moment)]
    assert changes == [
        change
        for number in range(5)
        for change in (("ADDED", f"map-{number}"), ("ADDED", f"secret-{number}"), ("DELETED", f"map-{number}"))
    ]
    assert len(last.list(Secret)) == 5
    assert {ref.name for ref in states[-1].world.objects} == {ref.name for ref in last.objects}


async def test_a_recorder_whose_connection_breaks_resumes_its_watch(
    kube_cluster: ClusterAccess, kube_namespace: str, proxy: FaultProxy
) -> None:
    admin, maps = kube_cluster.admin(), f"/api/v1/namespaces/{kube_namespace}/configmaps"
    through_proxy = evolve(kube_cluster, server=proxy.url)
    cut = proxy.inject(CutAfterEvents(1, times=2), watch=True)

    async with recording_changes(through_proxy, [ConfigMap.KIND], {"main": kube_namespace}, proxy.changes) as recorder:
        for number in range(4):
            admin.create(maps, {"metadata": {"name": f"map-{number}"}})
        await recorder.catch_up()

    names = [event.ref.name for event in recorder.events if event.ref.name.startswith("map-")]
    assert (names, cut.count) == ([f"map-{number}" for number in range(4)], 2)


async def test_the_error_for_an_unserved_kind_names_it(
    kube_cluster: ClusterAccess, kube_namespace: str, proxy: FaultProxy
) -> None:
    unknown = ResourceKind("example.org", "v1", "Widget", "widgets", namespaced=True)

    with pytest.raises(ExceptionGroup) as caught:
        async with recording_changes(kube_cluster, [unknown], {"main": kube_namespace}, proxy.changes):
            pass

    assert caught.group_contains(RecordingError, match=r"example\.org/v1 Widget")


async def test_a_request_to_a_busy_server_is_retried() -> None:
    changes = ChangeSignal()
    new = {"metadata": {"name": "new", "namespace": "home", "resourceVersion": "6"}}

    async with ScriptedServer() as server, ClientSession(server.url) as session, asyncio.TaskGroup() as group:
        server.on("GET", MAPS).answer(*BUSY, LISTED)
        server.on("GET", MAPS, watch=True).answer(*BUSY, watch_stream(added(new), Stall()))
        recorder = ChangeRecorder(session, [ConfigMap.KIND], {"main": "home"}, changes)
        (watch,) = await recorder.watch(group)
        await recorder.until(lambda world: bool(world.objects))
        watch.cancel()

    assert [event.ref.name for event in recorder.events] == ["new"]


@pytest.mark.parametrize("answer", [BUSY[0], kube_status(403, "Forbidden", "no permission")], ids=["busy", "forbidden"])
async def test_a_server_that_stays_busy_or_rejects_is_an_error_with_its_message(answer: Answer) -> None:
    async with ScriptedServer() as server, ClientSession(server.url) as session, asyncio.TaskGroup() as group:
        server.on("GET", MAPS).answer(answer)
        recorder = ChangeRecorder(session, [ConfigMap.KIND], {"main": "home"}, ChangeSignal(), timeout=0)

        with pytest.raises(RecordingError, match=r"v1 ConfigMap in home: HTTP (503; .*Unavailable|403; .*no)"):
            await recorder.watch(group)
