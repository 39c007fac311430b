"""A client that crashes at one of its requests; the audit log of a real API server shows which ones reached it."""

import uuid
from collections.abc import AsyncIterator

import aiohttp
import pytest

from gpuruntime.testing import AuditLog, ClusterAccess
from gpuruntime.testing.cluster.audit import Recording
from gpuruntime.testing.faults.definitions import DieAfterWrites, DieAtOnce, DieBeforeWrite, FailRequests
from gpuruntime.testing.faults.exchanges import Call
from gpuruntime.testing.faults.proxy import ClientCertificate, FaultProxy

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


async def create(client: aiohttp.ClientSession, maps: str, name: str, query: str = "") -> int | None:
    """The status code, None without a response."""
    try:
        async with client.post(f"{maps}{query}", json={"metadata": {"name": name}}) as response:
            return response.status
    except aiohttp.ClientConnectionError:
        return None


def created(seen: Recording) -> list[int]:
    return [request.code for request in seen.requests if request.user_agent == USER_AGENT]


async def test_the_response_to_the_last_write_can_be_lost(
    kube_audit: AuditLog, proxy: FaultProxy, client: aiohttp.ClientSession, maps: str
) -> None:
    death = proxy.inject(DieAfterWrites(2, lose_response=True))

    with kube_audit.recording() as seen:
        answers = [await create(client, maps, name) for name in ("a", "b", "c")]
        await death.triggered()

    assert answers == [201, None, None]
    assert created(seen) == [201, 201]


async def test_dying_before_a_write_lets_all_earlier_writes_pass(
    kube_audit: AuditLog, proxy: FaultProxy, client: aiohttp.ClientSession, maps: str
) -> None:
    death = proxy.inject(DieBeforeWrite(2))

    async with client.get(f"{maps}?watch=1") as watch:
        with kube_audit.recording() as seen:
            answers = [await create(client, maps, name) for name in ("a", "b", "c")]
            await death.triggered()
        with pytest.raises(aiohttp.ClientPayloadError):
            await watch.read()
    death.lift()

    assert answers == [201, None, None]
    assert created(seen) == [201]
    assert await create(client, maps, "b") == 201


async def test_a_dry_run_does_not_count_as_a_write(proxy: FaultProxy, client: aiohttp.ClientSession, maps: str) -> None:
    death = proxy.inject(DieAfterWrites(1))

    answers = [await create(client, maps, "a", "?dryRun=All"), await create(client, maps, "a")]
    await death.triggered()

    assert answers == [201, 201]
    assert await create(client, maps, "b") is None


async def test_a_client_that_is_cut_off_gets_nothing_through(
    kube_audit: AuditLog, proxy: FaultProxy, client: aiohttp.ClientSession, maps: str
) -> None:
    async with client.get(f"{maps}?watch=1") as watch:
        with kube_audit.recording() as seen, proxy.inject(DieAtOnce()):
            dead = await create(client, maps, "a")
            with pytest.raises(aiohttp.ClientPayloadError):
                await watch.read()

    assert (dead, created(seen)) == (None, [])
    assert await create(client, maps, "a") == 201


async def test_a_fault_can_target_one_call_and_the_log_has_every_status(
    proxy: FaultProxy, client: aiohttp.ClientSession, maps: str
) -> None:
    proxy.inject(FailRequests(500), call=Call("POST", "configmaps", 2))

    answers = [await create(client, maps, name) for name in ("a", "b", "b", "b")]

    assert answers == [201, 500, 201, 409]
    assert [(str(exchange.call), exchange.name, exchange.status) for exchange in proxy.log.exchanges] == [
        ("POST configmaps #1", "a", 201),
        ("POST configmaps #2", "b", None),
        ("POST configmaps #3", "b", 201),
        ("POST configmaps #4", "b", 409),
    ]
    assert [write.name for write in proxy.log.writes] == ["a", "b"]
