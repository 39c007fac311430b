"""The result store before a real API server and a real NATS, with exactly its permissions."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import ClientSession, ClientTimeout
from attrs import frozen

from gpuruntime.api.invocations import ARCHIVE_AUDIENCE, ArchiveQuery
from gpuruntime.control import HttpAddress, Permission
from gpuruntime.control.permissions.offline_credentials import OFFLINE_CREDENTIALS
from gpuruntime.kube import from_kubeconfig
from gpuruntime.processes.config.database_section import DatabaseSection
from gpuruntime.processes.config.nats_section import NatsSection
from gpuruntime.processes.config.serverless_section import ServerlessSection
from gpuruntime.processes.result_store import ResultStoreConfig, StoreAuth, build_result_store
from gpuruntime.service.invocations.archive_client import ArchiveClient, ArchiveClientOptions
from gpuruntime.testing import AuditLog, ClusterAccess
from gpuruntime.testing.nats import NatsServer
from gpuruntime.testing.permissions import granted_account, usage
from tests.archive.archive_scenes import results_stream
from tests.archive.result_scenes import key_of
from tests.control.scenes import managing
from tests.product_scenes import eventually

READER = "runtime-api"


@frozen
class Store:
    """A running result store: its URL, its account and its permissions."""

    url: str
    username: str
    permissions: tuple[Permission, ...]


def config(server: NatsServer, namespace: str, directory: Path) -> ResultStoreConfig:
    nats = NatsSection(
        urls=(server.url,),
        user_file=server.files.user_file("result-store"),
        password_file=server.files.password_file("result-store"),
    )
    return ResultStoreConfig(
        http_addr=HttpAddress(),
        metrics_bind_address=HttpAddress(),
        database=DatabaseSection(file=directory / "results.db"),
        serverless=ServerlessSection(nats=nats),
        auth=StoreAuth(token_review=True, grants=(f"user:system:serviceaccount:{namespace}:{READER}=read",)),
        shutdown_grace=10.0,
    )


@asynccontextmanager
async def result_store(
    access: ClusterAccess, chosen: ResultStoreConfig, namespace: str, directory: Path
) -> AsyncIterator[Store]:
    permissions = build_result_store(OFFLINE_CREDENTIALS, chosen).permissions
    with granted_account(access, permissions, namespace=namespace, directory=directory) as account:
        process = build_result_store(from_kubeconfig(account.kubeconfig), chosen)
        process.serve(chosen)
        async with managing(process.manager):
            await eventually(lambda: len(process.manager.sites) == 2)
            for site in process.manager.sites:
                await site.listening()
            yield Store(process.manager.sites[1].bound.url, account.username, permissions)


def token(access: ClusterAccess, namespace: str, account: str, audience: str) -> str:
    return access.kubectl("create", "token", account, "--namespace", namespace, "--audience", audience).strip()


async def test_the_api_reads_what_ended_and_no_other_account_or_audience_does(
    kube_cluster: ClusterAccess, kube_namespace: str, kube_audit: AuditLog, nats_server: NatsServer, tmp_path: Path
) -> None:
    for account in (READER, "other"):
        kube_cluster.kubectl("create", "serviceaccount", account, "--namespace", kube_namespace)
    tokens = {
        "reader": token(kube_cluster, kube_namespace, READER, ARCHIVE_AUDIENCE),
        "for the API": token(kube_cluster, kube_namespace, READER, "gpuruntime"),
        "for workers": token(kube_cluster, kube_namespace, READER, "gpuruntime-activator"),
        "without a grant": token(kube_cluster, kube_namespace, "other", ARCHIVE_AUDIENCE),
        "unknown": "no-such-token",
    }
    (tmp_path / "token").write_text(tokens["reader"])
    chosen = config(nats_server, kube_namespace, tmp_path)

    async with results_stream(nats_server) as results:
        await results.end([key_of(f"i{number}") for number in range(3)])
        with kube_audit.recording() as seen:
            async with (
                result_store(kube_cluster, chosen, kube_namespace, tmp_path) as store,
                ClientSession(store.url, timeout=ClientTimeout(total=60)) as http,
            ):
                await results.archived()
                statuses = {}
                for name, text in tokens.items():
                    async with http.get("/v1/invocations", headers={"Authorization": f"Bearer {text}"}) as answer:
                        statuses[name] = answer.status
                async with http.get("/v1/invocations") as answer:
                    statuses["none"] = answer.status
                client = ArchiveClient(ArchiveClientOptions(store.url, tmp_path / "token"))
                running = asyncio.create_task(client.run())
                page = await client.list(ArchiveQuery(limit=2))
                body = await client.body(key_of("i1"))
                running.cancel()
                await asyncio.wait([running])

    assert statuses == {
        "reader": 200,
        "for the API": 401,
        "for workers": 401,
        "without a grant": 403,
        "unknown": 401,
        "none": 401,
    }
    assert [item.id for item in page.items] == ["i2", "i1"]
    assert page.next
    assert body == b"done"
    found = usage(store.permissions, seen.requests, user=store.username)
    assert found.is_exact, str(found)
