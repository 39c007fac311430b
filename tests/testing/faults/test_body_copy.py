"""Response bodies under faults, of a real API server and of a scripted one."""

import asyncio
import http.client
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import aiohttp
import pytest
from attrs import frozen

from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.faults.definitions import CutAfterBytes, CutAfterEvents, DelayEvents, HoldEvents
from gpuruntime.testing.faults.proxy import ClientCertificate, FaultProxy
from gpuruntime.testing.scripted.answers import Begin, Cut, Send, Stall, respond, watch_stream
from gpuruntime.testing.scripted.server import ScriptedServer
from gpuruntime.testing.scripted.watch_events import (
    added,
    cut_in_pieces,
    event_of_size,
    first_half,
    in_one_chunk,
    line_of,
)

POD = {"metadata": {"name": "a"}}
PODS = "/api/v1/pods"
WATCH = f"{PODS}?watch=1"


@frozen
class Received:
    """The data that a client received, and whether the response ended cleanly."""

    body: bytes
    complete: bool


@pytest.fixture
async def proxy(kube_cluster: ClusterAccess) -> AsyncIterator[FaultProxy]:
    identity = ClientCertificate(kube_cluster.certificate, kube_cluster.key)
    async with FaultProxy(kube_cluster.server, kube_cluster.authority, identity=identity) as proxy:
        yield proxy


@pytest.fixture
async def client(proxy: FaultProxy) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(proxy.url) as client:
        yield client


@pytest.fixture
async def target() -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer() as target:
        yield target


@pytest.fixture
async def before_target(kube_cluster: ClusterAccess, target: ScriptedServer) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(target.url, kube_cluster.authority) as proxy:
        yield proxy


@pytest.fixture
def maps(kube_namespace: str) -> str:
    return f"/api/v1/namespaces/{kube_namespace}/configmaps"


@pytest.fixture
def create(kube_cluster: ClusterAccess, maps: str) -> Callable[[str], None]:
    """Creates ConfigMaps that `watching` selects, without the proxy."""
    admin = kube_cluster.admin()
    return lambda name: admin.create(maps, {"metadata": {"name": name, "labels": {"ours": "yes"}}})


def watching(maps: str) -> str:
    return f"{maps}?watch=1&labelSelector=ours"


async def receive(proxy: FaultProxy, path: str, method: str = "GET") -> Received:
    """Send a request with a client that never retries, and keeps data from before the connection broke."""

    def run() -> Received:
        connection = http.client.HTTPConnection(proxy.url.removeprefix("http://"), timeout=60)
        try:
            connection.request(method, path)
            return Received(connection.getresponse().read(), complete=True)
        except http.client.IncompleteRead as error:
            return Received(error.partial, complete=False)
        finally:
            connection.close()

    return await asyncio.to_thread(run)


async def name_of_next(response: aiohttp.ClientResponse) -> str:
    event: Mapping[str, Any] = json.loads(await response.content.readline())
    return str(event["object"]["metadata"]["name"])


async def round_trip(client: aiohttp.ClientSession) -> None:
    """Wait until all data that was sent to the client has arrived."""
    async with client.get("/version") as response:
        await response.read()


async def test_watch_events_are_forwarded_while_the_watch_is_open(
    client: aiohttp.ClientSession, maps: str, create: Callable[[str], None]
) -> None:
    async with client.get(watching(maps)) as watch:
        names = []
        for name in ("a", "b", "c"):
            create(name)
            names.append(await name_of_next(watch))

    assert names == ["a", "b", "c"]


async def test_a_watch_is_cut_after_the_given_number_of_events(
    proxy: FaultProxy, maps: str, create: Callable[[str], None]
) -> None:
    for name in ("a", "b", "c"):
        create(name)
    cut = proxy.inject(CutAfterEvents(2, times=1), watch=True)

    received = await receive(proxy, watching(maps))
    after = await receive(proxy, f"{watching(maps)}&timeoutSeconds=1")

    assert not received.complete
    assert [json.loads(line)["type"] for line in received.body.splitlines()] == ["ADDED", "ADDED"]
    assert (after.complete, len(after.body.splitlines())) == (True, 3)
    assert cut.count == 1


async def test_an_open_watch_is_cut_at_once_or_after_further_events(
    proxy: FaultProxy, client: aiohttp.ClientSession, maps: str, create: Callable[[str], None]
) -> None:
    create("before")
    async with client.get(watching(maps)) as first, client.get(watching(maps)) as second:
        names = [await name_of_next(first), await name_of_next(second)]

        with proxy.inject(CutAfterEvents(1, times=2)):
            # Both read before the event arrives: aiohttp's client drops unread data when a connection breaks.
            reading = asyncio.gather(name_of_next(first), name_of_next(second))
            create("after")
            names += await reading
            for watch in (first, second):
                with pytest.raises(aiohttp.ClientPayloadError):
                    await watch.read()
    async with client.get(watching(maps)) as third:
        proxy.inject(CutAfterEvents(0))
        with pytest.raises(aiohttp.ClientPayloadError):
            await third.read()

    assert names == ["before", "before", "after", "after"]


@pytest.mark.parametrize("watch", [True, False])
async def test_a_response_is_cut_after_the_given_number_of_bytes(
    proxy: FaultProxy, maps: str, create: Callable[[str], None], watch: bool
) -> None:
    create("a")
    # A list has the version of the whole cluster, which changes from one response to the next.
    path = f"{watching(maps)}&timeoutSeconds=1" if watch else f"{maps}/a"
    whole = await receive(proxy, path)

    proxy.inject(CutAfterBytes(100), path=path.partition("?")[0], watch=watch)
    received = await receive(proxy, path)

    assert whole.complete
    assert len(whole.body) > 100
    assert received == Received(whole.body[:100], complete=False)


async def test_held_events_arrive_in_order_when_the_fault_is_lifted(
    proxy: FaultProxy, client: aiohttp.ClientSession, maps: str, create: Callable[[str], None]
) -> None:
    async with client.get(watching(maps)) as watch:
        create("before")
        names = [await name_of_next(watch)]

        with proxy.inject(HoldEvents(), path=maps) as hold:
            reading = asyncio.create_task(name_of_next(watch))
            create("first")
            create("second")
            await hold.triggered(2)
            await round_trip(client)
            held = not reading.done()
        names += [await reading, await name_of_next(watch)]

    assert held
    assert names == ["before", "first", "second"]


async def test_delayed_events_arrive_after_their_delay(
    proxy: FaultProxy,
    client: aiohttp.ClientSession,
    maps: str,
    create: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    real, ahead = loop.time, [0.0]
    monkeypatch.setattr(loop, "time", lambda: real() + ahead[0])
    delay = proxy.inject(DelayEvents(100), watch=True)

    async with client.get(watching(maps)) as watch:
        reading = asyncio.create_task(name_of_next(watch))
        create("first")
        await delay.triggered(1)
        ahead[0] += 90
        create("second")
        await delay.triggered(2)
        await round_trip(client)
        early = reading.done()
        ahead[0] += 11
        first = await reading
        rest = asyncio.create_task(name_of_next(watch))
        await round_trip(client)
        overtaken = rest.done()
        delay.lift()
        second = await rest

    assert (early, overtaken) == (False, False)
    assert (first, second) == ("first", "second")


async def test_event_faults_do_not_affect_other_requests(
    proxy: FaultProxy, client: aiohttp.ClientSession, maps: str
) -> None:
    proxy.inject(HoldEvents())
    proxy.inject(DelayEvents(3600))
    proxy.inject(CutAfterEvents(0))

    async with client.get(maps) as response:
        document = await response.json()

    assert document["kind"] == "ConfigMapList"


async def test_each_event_is_forwarded_whole_however_it_was_chunked(
    target: ScriptedServer, before_target: FaultProxy
) -> None:
    long = event_of_size(added(POD), 5_000_000)
    parts = (in_one_chunk(added(POD), added(POD)), *cut_in_pieces(added(POD), 5), line_of(long), first_half(added(POD)))
    target.on("GET", PODS, watch=True).answer(watch_stream(*parts))

    async with aiohttp.ClientSession(before_target.url) as client, client.get(WATCH) as response:
        chunks, chunk = [], b""
        async for data, complete in response.content.iter_chunks():
            chunk += data
            if complete:
                chunks.append(chunk)
                chunk = b""

    assert chunks == [*[line_of(added(POD))] * 3, line_of(long), first_half(added(POD))]


async def test_a_stream_cut_by_the_server_is_cut_for_the_client_after_all_its_data(
    target: ScriptedServer, before_target: FaultProxy
) -> None:
    line, half = line_of(added(POD)), first_half(added(POD))
    target.on("GET", PODS, watch=True).answer(watch_stream(line, half, Cut()))

    received = await receive(before_target, WATCH)

    assert received == Received(line + half, complete=False)


async def test_a_stream_without_lines_is_forwarded_unchanged(target: ScriptedServer, before_target: FaultProxy) -> None:
    protobuf = {"Content-Type": "application/vnd.kubernetes.protobuf;stream=watch"}
    target.on("GET", PODS, watch=True).answer((Begin(200, protobuf), Send(b"\x00\x00\x00\x04k8s"), Stall()))

    async with aiohttp.ClientSession(before_target.url) as client, client.get(WATCH) as response:
        received = await response.content.readexactly(7)

    assert received == b"\x00\x00\x00\x04k8s"


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304)])
async def test_a_response_without_a_body_stays_without_one(
    target: ScriptedServer, before_target: FaultProxy, method: str, status: int
) -> None:
    target.on(method, PODS).answer(respond(status))

    received = await receive(before_target, PODS, method)

    assert received == Received(b"", complete=True)


async def test_a_request_dropped_by_the_server_is_not_retried(
    target: ScriptedServer, before_target: FaultProxy
) -> None:
    target.on("PUT", PODS).answer((Cut(),))

    with pytest.raises(http.client.RemoteDisconnected):
        await receive(before_target, PODS, "PUT")

    assert len(target.requests()) == 1


async def test_a_client_that_disconnects_cancels_its_request_to_the_server(
    target: ScriptedServer, before_target: FaultProxy
) -> None:
    target.on("GET", PODS, watch=True).answer(watch_stream(added(POD), Stall()))

    async with aiohttp.ClientSession(before_target.url) as client, client.get(WATCH) as response:
        await response.content.readline()
    await target.idle()

    assert len(target.requests()) == 1
