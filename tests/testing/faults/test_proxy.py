"""Faults between a client and a real API server, whose audit log shows which requests reached it."""

import asyncio
import gc
import json
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from attrs import evolve

from gpuruntime.testing import AuditLog, ClusterAccess
from gpuruntime.testing.cluster.audit import Recording
from gpuruntime.testing.faults.definitions import (
    CutAfterEvents,
    DelayRequests,
    DieAfterWrites,
    DropRequests,
    FailRequests,
    LoseResponses,
    StallRequests,
)
from gpuruntime.testing.faults.proxy import BearerToken, ClientCertificate, FaultProxy
from gpuruntime.testing.plugin import AccountFactory

RULES = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]
OTHERS = "/version"
# The audit log is that of all workers, whose tests may use a proxy at the same time.
USER_AGENT = f"client-of-the-proxy-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def maps(kube_namespace: str) -> str:
    return f"/api/v1/namespaces/{kube_namespace}/configmaps"


@pytest.fixture
async def proxy(kube_cluster: ClusterAccess) -> AsyncIterator[FaultProxy]:
    identity = ClientCertificate(kube_cluster.certificate, kube_cluster.key)
    async with FaultProxy(kube_cluster.server, kube_cluster.authority, identity=identity) as proxy:
        yield proxy


@pytest.fixture
async def client(proxy: FaultProxy) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(proxy.url, headers={"User-Agent": USER_AGENT}) as client:
        yield client


@pytest.fixture
async def advance(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Advances the clock of the running loop."""
    loop = asyncio.get_running_loop()
    real, ahead = loop.time, [0.0]
    monkeypatch.setattr(loop, "time", lambda: real() + ahead[0])

    def move(seconds: float) -> None:
        ahead[0] += seconds

    return move


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def ours(seen: Recording) -> list[tuple[str, str, int]]:
    """The objects whose creation reached the server."""
    mine = [request for request in seen.requests if request.user_agent == USER_AGENT]
    return [(request.verb, request.name, request.code) for request in mine]


async def status_of(client: aiohttp.ClientSession, method: str, path: str, body: Any = None) -> int:
    async with client.request(method, path, json=body) as response:
        await response.read()
        return response.status


async def test_without_faults_a_client_gets_the_server_s_responses(
    kube_audit: AuditLog, client: aiohttp.ClientSession, maps: str
) -> None:
    with kube_audit.recording() as seen:
        created = await status_of(client, "POST", maps, config_map("a"))
        again = await status_of(client, "POST", maps, config_map("a"))
        async with client.get(f"{maps}/a?pretty=false", headers={"Accept": "application/yaml"}) as response:
            text = await response.text()
        deleted = await status_of(client, "DELETE", f"{maps}/a")

    assert (created, again, deleted) == (201, 409, 200)
    assert (response.content_type, text.splitlines()[0]) == ("application/yaml", "apiVersion: v1")
    assert [code for _, _, code in ours(seen)] == [201, 409, 200, 200]


async def test_a_compressed_response_is_forwarded_compressed(
    kube_cluster: ClusterAccess, client: aiohttp.ClientSession
) -> None:
    async with client.get("/openapi/v2", headers={"Accept-Encoding": "gzip", "Accept": "application/json"}) as response:
        document = await response.json()

    assert response.headers["Content-Encoding"] == "gzip"
    assert document["info"]["title"] == "Kubernetes"
    assert kube_cluster.admin().get("/openapi/v2")["info"] == document["info"]


async def test_a_request_with_a_token_is_authenticated_by_it(
    kube_account: AccountFactory, kube_audit: AuditLog, client: aiohttp.ClientSession, maps: str
) -> None:
    account = kube_account(rules=RULES)

    with kube_audit.recording() as seen:
        async with client.get(maps, headers={"Authorization": f"Bearer {account.token}"}) as response:
            mine = response.status
        async with client.get(maps, headers={"Authorization": "Bearer wrong"}) as response:
            wrong = response.status
        without = await status_of(client, "GET", maps)

    users = [request.user for request in seen.requests if request.user_agent == USER_AGENT]
    assert (mine, wrong, without) == (200, 401, 200)
    assert [user for user in users if user] == [account.username, "admin"]


async def test_the_proxy_may_have_a_token_or_be_anonymous(
    kube_cluster: ClusterAccess, kube_account: AccountFactory, maps: str
) -> None:
    identity = BearerToken(kube_account(rules=RULES).token)
    codes = []

    for each in (identity, None):
        async with (
            FaultProxy(kube_cluster.server, kube_cluster.authority, identity=each) as proxy,
            aiohttp.ClientSession(proxy.url) as client,
        ):
            codes.append(await status_of(client, "GET", maps))

    assert codes == [200, 403]
    assert identity.token not in repr(identity)


async def test_a_process_with_its_own_kubeconfig_uses_the_proxy(
    kube_cluster: ClusterAccess, kube_account: AccountFactory, proxy: FaultProxy, kube_namespace: str, tmp_path: Path
) -> None:
    through_proxy = evolve(kube_cluster, server=proxy.url, kubeconfig=tmp_path / "kubeconfig")
    token = kube_account(rules=RULES).token
    through_proxy.kubeconfig.write_text(json.dumps(through_proxy.kubeconfig_for(token, kube_namespace)))

    said = await asyncio.to_thread(through_proxy.kubectl, "create", "configmap", "a")

    assert said == "configmap/a created\n"
    assert proxy.counts["POST", "configmaps"] == 1


async def test_a_delayed_request_reaches_the_server_after_the_delay(
    kube_audit: AuditLog, proxy: FaultProxy, client: aiohttp.ClientSession, maps: str, advance: Callable[[float], None]
) -> None:
    with proxy.inject(DelayRequests(10), path=maps) as delay:
        request = asyncio.create_task(status_of(client, "GET", maps))
        await delay.triggered()

        with kube_audit.recording() as early:
            advance(9)
            await status_of(client, "GET", OTHERS)
        waited = not request.done()
        with kube_audit.recording() as late:
            advance(2)
            status = await request

    assert waited
    assert (ours(early), ours(late)) == ([], [("list", "", 200)])
    assert status == 200


async def test_a_delay_ends_when_it_is_lifted(proxy: FaultProxy, client: aiohttp.ClientSession, maps: str) -> None:
    delay = proxy.inject(DelayRequests(3600), path=maps)
    request = asyncio.create_task(status_of(client, "GET", maps))
    await delay.triggered()

    delay.lift()

    assert await request == 200


async def test_a_stalled_request_reaches_the_server_when_the_fault_is_lifted(
    kube_audit: AuditLog, proxy: FaultProxy, client: aiohttp.ClientSession, maps: str
) -> None:
    stall = proxy.inject(StallRequests(), method="POST", path=maps)
    with kube_audit.recording() as before:
        request = asyncio.create_task(status_of(client, "POST", maps, config_map("a")))
        await stall.triggered()
        other = await status_of(client, "GET", OTHERS)

    with kube_audit.recording() as after:
        stall.lift()
        status = await request

    assert (other, ours(before)) == (200, [])
    assert (status, [code for _, _, code in ours(after)]) == (201, [201])


async def test_a_dropped_request_never_reaches_the_server(
    kube_audit: AuditLog, proxy: FaultProxy, client: aiohttp.ClientSession, maps: str
) -> None:
    proxy.inject(DropRequests(times=1), method="POST")

    with kube_audit.recording() as first, pytest.raises(aiohttp.ServerDisconnectedError):
        await client.post(maps, json=config_map("a"))
    with kube_audit.recording() as second:
        status = await status_of(client, "POST", maps, config_map("a"))

    assert ours(first) == []
    assert (status, [code for _, _, code in ours(second)]) == (201, [201])


async def test_a_request_whose_response_is_lost_was_executed(
    kube_cluster: ClusterAccess, kube_audit: AuditLog, proxy: FaultProxy, client: aiohttp.ClientSession, maps: str
) -> None:
    lost = proxy.inject(LoseResponses(times=1), method="POST")

    with kube_audit.recording() as seen, pytest.raises(aiohttp.ServerDisconnectedError):
        await client.post(maps, json=config_map("a"))
    again = await status_of(client, "POST", maps, config_map("a"))

    assert (lost.count, [(verb, code) for verb, _, code in ours(seen)]) == (1, [("create", 201)])
    assert kube_cluster.admin().get(f"{maps}/a")["metadata"]["name"] == "a"
    assert again == 409


async def test_the_response_of_a_watch_can_be_lost_too(
    proxy: FaultProxy, client: aiohttp.ClientSession, maps: str
) -> None:
    proxy.inject(LoseResponses(), watch=True)

    with pytest.raises(aiohttp.ClientConnectionError):
        await client.get(f"{maps}?watch=1")

    assert await status_of(client, "GET", maps) == 200


async def test_an_injected_failure_has_the_given_status_and_body(
    kube_audit: AuditLog, proxy: FaultProxy, client: aiohttp.ClientSession, maps: str
) -> None:
    proxy.inject(FailRequests(429, retry_after=7, times=1), path=maps)
    proxy.inject(FailRequests(502, body="<html>bad gateway</html>", times=1), path=maps)

    with kube_audit.recording() as seen:
        async with client.get(maps) as busy:
            status = await busy.json()
        async with client.get(maps) as broken:
            page = await broken.text()
        fine = await status_of(client, "GET", maps)

    assert (busy.status, busy.headers["Retry-After"]) == (429, "7")
    assert (status["kind"], status["code"], status["details"]) == ("Status", 429, {"retryAfterSeconds": 7})
    assert (broken.status, broken.content_type, page) == (502, "text/html", "<html>bad gateway</html>")
    assert (fine, len(ours(seen))) == (200, 1)


async def test_a_fault_injected_while_a_request_is_delayed_applies_to_it(
    kube_audit: AuditLog, proxy: FaultProxy, client: aiohttp.ClientSession, maps: str
) -> None:
    stall = proxy.inject(StallRequests(), path=maps)
    request = asyncio.create_task(status_of(client, "POST", maps, config_map("a")))
    await stall.triggered()

    with kube_audit.recording() as seen:
        proxy.inject(DropRequests(), path=maps)
        stall.lift()
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await request

    assert ours(seen) == []


async def test_requests_are_counted_by_method_and_resource(
    proxy: FaultProxy, client: aiohttp.ClientSession, maps: str
) -> None:
    proxy.inject(FailRequests(500), method="POST")
    proxy.inject(CutAfterEvents(0), watch=True)

    await status_of(client, "POST", maps, config_map("a"))
    await status_of(client, "GET", maps)
    await status_of(client, "GET", f"{maps}/a")
    await status_of(client, "GET", OTHERS)
    async with client.get(f"{maps}?watch=1"):
        pass

    assert proxy.counts == {
        ("POST", "configmaps"): 1,
        ("GET", "configmaps"): 2,
        ("WATCH", "configmaps"): 1,
        ("GET", "/version"): 1,
    }


async def test_after_the_last_write_the_client_is_cut_off_until_the_fault_is_lifted(
    kube_audit: AuditLog, proxy: FaultProxy, client: aiohttp.ClientSession, maps: str
) -> None:
    death = proxy.inject(DieAfterWrites(2), path=f"{maps}.*")

    async with client.get(f"{maps}?watch=1") as watch:
        with kube_audit.recording() as seen:
            first = await status_of(client, "POST", maps, config_map("a"))
            refused = await status_of(client, "POST", maps, config_map("a"))
            second = await status_of(client, "DELETE", f"{maps}/a")
            await death.triggered()
            for method, path in (("POST", maps), ("GET", maps), ("GET", OTHERS)):
                with pytest.raises(aiohttp.ClientConnectionError):
                    await client.request(method, path, json=config_map("b") if method == "POST" else None)
        with pytest.raises(aiohttp.ClientPayloadError):
            await watch.read()
    death.lift()
    revived = await status_of(client, "POST", maps, config_map("b"))

    assert (first, refused, second, revived) == (201, 409, 200, 201)
    assert [code for _, _, code in ours(seen)] == [201, 409, 200]


async def test_of_many_concurrent_writes_exactly_the_allowed_number_is_executed(
    kube_cluster: ClusterAccess, proxy: FaultProxy, client: aiohttp.ClientSession, maps: str
) -> None:
    proxy.inject(DieAfterWrites(3), method="POST")

    writes = [status_of(client, "POST", maps, config_map(f"map-{index}")) for index in range(10)]
    outcomes = await asyncio.gather(*writes, return_exceptions=True)

    names = {item["metadata"]["name"] for item in kube_cluster.admin().get(maps)["items"]}
    assert outcomes.count(201) == 3
    assert sum(isinstance(outcome, aiohttp.ClientConnectionError) for outcome in outcomes) == 7
    assert len(names - {"kube-root-ca.crt"}) == 3


async def test_an_unreachable_server_closes_the_client_connection(kube_cluster: ClusterAccess) -> None:
    async with FaultProxy("https://127.0.0.1:1", kube_cluster.authority) as proxy, aiohttp.ClientSession() as client:
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await client.post(f"{proxy.url}/version")

        assert proxy.counts == {("POST", "/version"): 1}


async def test_a_server_with_an_untrusted_certificate_gets_no_request(
    kube_cluster: ClusterAccess, kube_audit: AuditLog, maps: str, tmp_path: Path
) -> None:
    untrusted = tmp_path / "untrusted.pem"
    untrusted.write_bytes(kube_cluster.certificate.read_bytes())

    with kube_audit.recording() as seen:
        async with FaultProxy(kube_cluster.server, untrusted) as proxy, aiohttp.ClientSession(proxy.url) as client:
            with pytest.raises(aiohttp.ServerDisconnectedError):
                await client.get(maps, headers={"User-Agent": USER_AGENT})

    assert ours(seen) == []


async def test_leaving_ends_stalled_requests_and_open_watches_and_leaves_no_task(
    kube_cluster: ClusterAccess, maps: str
) -> None:
    identity = ClientCertificate(kube_cluster.certificate, kube_cluster.key)
    async with aiohttp.ClientSession() as client:
        async with FaultProxy(kube_cluster.server, kube_cluster.authority, identity=identity) as proxy:
            stall = proxy.inject(StallRequests(), method="POST")
            watch = await client.get(f"{proxy.url}{maps}?watch=1")
            stalled = asyncio.create_task(client.post(f"{proxy.url}{maps}", json=config_map("a")))
            await stall.triggered()

        with pytest.raises(aiohttp.ClientPayloadError):
            await watch.read()
        with pytest.raises(aiohttp.ClientConnectionError):
            await stalled

    assert len(asyncio.all_tasks()) == 1


def test_leaving_waits_for_closing_connections(kube_cluster: ClusterAccess, maps: str) -> None:
    identity = ClientCertificate(kube_cluster.certificate, kube_cluster.key)

    async def leave_watches() -> None:
        async with (
            FaultProxy(kube_cluster.server, kube_cluster.authority, identity=identity) as proxy,
            aiohttp.ClientSession(proxy.url) as client,
        ):
            for watch in [await client.get(f"{maps}?watch=1") for _ in range(3)]:
                watch.close()

    asyncio.run(leave_watches())

    gc.collect()  # unclosed resources warn now, and warnings are errors
