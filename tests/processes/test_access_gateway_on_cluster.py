"""The access gateway before a real API server and a real accessor process, with exactly its permissions."""

import asyncio
import logging
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, ClientTimeout
from attrs import frozen

from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.control import HttpAddress
from gpuruntime.control.permissions.offline_credentials import OFFLINE_CREDENTIALS
from gpuruntime.endpoints.auth.scopes import parse_scope
from gpuruntime.endpoints.auth.token_file import new_token
from gpuruntime.gateway.signing.keys import SigningKey
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.processes.access_gateway import AccessGatewayConfig, build_access_gateway
from gpuruntime.processes.config.api_sections import Auth
from gpuruntime.testing import AdminClient, AuditLog, ClusterAccess
from gpuruntime.testing.permissions import granted_account, usage
from tests.control.scenes import managing
from tests.product_scenes import eventually, kube_namespace, product

__all__ = ["kube_namespace", "product"]

STORAGES = "/apis/runtime.lokiwager.io/v1alpha1/namespaces/{}/gpustorages"
SCOPES = ("read", "write", "operator", "access", "write+access")


@frozen
class Addresses:
    """Every accessor is at one address."""

    where: list[str]

    def url(self, _storage: GPUStorage) -> str:
        return self.where[0]


def create_storage(admin: AdminClient, namespace: str, name: str, phase: str | None, *, enabled: bool = True) -> str:
    """Create a storage whose accessor is in this phase; returns its UID."""
    kind = {"apiVersion": "runtime.lokiwager.io/v1alpha1", "kind": "GPUStorage"}
    spec = {"size": "1Gi", "accessor": {"enabled": enabled}}
    path = STORAGES.format(namespace)
    made = admin.create(path, {**kind, "metadata": {"name": name}, "spec": spec})
    if phase is not None:
        admin.merge(f"{path}/{name}/status", {"status": {"accessor": {"phase": phase, "message": "It starts."}}})
    return str(made["metadata"]["uid"])


@contextmanager
def accessor_process(root: Path, uid: str, *keys: str) -> Iterator[str]:
    """`gpuruntime accessor` in a process of its own; yields its URL."""
    command = [sys.executable, "-m", "gpuruntime.processes.command", "accessor", f"--directory={root}"]
    flags = ["--address=127.0.0.1:0", f"--audience={uid}", *(f"--public-key={key}" for key in keys)]
    with subprocess.Popen([*command, *flags], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()
            assert process.wait() == 0


@pytest.fixture
async def namespace(product: ClusterAccess, kube_namespace: str) -> AsyncIterator[str]:
    yield kube_namespace
    for name in ("data", "off", "starts"):
        product.admin().delete(f"{STORAGES.format(kube_namespace)}/{name}")


@asynccontextmanager
async def gateway(
    access: ClusterAccess, namespace: str, directory: Path, addresses: Addresses
) -> AsyncIterator[tuple[str, str, Any]]:
    """A running gateway; yields its URL, the name of its account, and its permissions."""
    config = AccessGatewayConfig(
        namespaces=Namespaces((namespace,), ("stock",), namespace),
        http_addr=HttpAddress(),
        metrics_bind_address=HttpAddress(),
        signing_key_file=directory / "key.pem",
        auth=Auth(token_file=directory / "tokens", token_review=True, grants=("group:system:authenticated=access",)),
        shutdown_grace=10.0,
    )
    permissions = build_access_gateway(OFFLINE_CREDENTIALS, config).permissions
    with granted_account(access, permissions, namespace=namespace, directory=directory) as account:
        made = build_access_gateway(from_kubeconfig(account.kubeconfig), config)
        made.serve(config, addresses)
        async with managing(made.manager):
            await made.storages.synced()
            await eventually(lambda: len(made.manager.sites) == 2)
            for site in made.manager.sites:
                await site.listening()
            yield made.manager.sites[1].bound.url, account.username, permissions


async def test_callers_with_scope_access_read_files_of_storages_and_others_learn_why_not(
    product: ClusterAccess, namespace: str, kube_audit: AuditLog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    admin, root, addresses = product.admin(), tmp_path / "data", Addresses([""])
    root.mkdir()
    (root / "weights.bin").write_bytes(bytes(range(256)) * 4096)
    tokens = {scope: new_token(f"the-{scope}", parse_scope(scope)) for scope in SCOPES}
    (tmp_path / "tokens").write_text("".join(f"{made.line}\n" for made in tokens.values()))
    key = SigningKey.generate()
    (tmp_path / "key.pem").write_bytes(key.pem)
    uid = create_storage(admin, namespace, "data", "Ready")
    create_storage(admin, namespace, "off", None, enabled=False)
    create_storage(admin, namespace, "starts", "Pending")
    statuses, content = dict[str, int](), b""

    with accessor_process(root, uid, key.public_text) as url, kube_audit.recording() as seen:
        addresses.where[:] = [url]
        async with (
            gateway(product, namespace, tmp_path, addresses) as (base, username, permissions),
            ClientSession(f"{base}/storage/{namespace}/", timeout=ClientTimeout(total=60)) as client,
        ):
            with caplog.at_level(logging.INFO, "gpuruntime.audit"):
                for scope, made in tokens.items():
                    headers = {"Authorization": f"Bearer {made.token}"}
                    async with client.get("data/weights.bin", headers=headers) as answer:
                        statuses[scope] = answer.status
                        content = await answer.read()
                async with client.get("data/", headers={"Authorization": "Bearer no-such-token"}) as answer:
                    statuses["unknown"] = answer.status
            caller = {"Authorization": f"Bearer {tokens['access'].token}"}
            for name in ("data", "off", "starts", "nothing"):
                async with client.get(f"{name}/", headers=caller) as answer:
                    statuses[name] = answer.status
            admin.delete(f"{STORAGES.format(namespace)}/data")
            create_storage(admin, namespace, "data", "Ready")
            while statuses.get("another") != 502:
                async with client.get("data/", headers=caller) as answer:
                    statuses["another"] = answer.status
                    await asyncio.sleep(0.02)

    assert statuses == {
        "read": 403,
        "write": 403,
        "operator": 403,
        "access": 200,
        "write+access": 200,
        "unknown": 401,
        "data": 200,
        "off": 503,
        "starts": 503,
        "nothing": 404,
        "another": 502,
    }
    assert content == bytes(range(256)) * 4096
    lines = [record.__dict__ for record in caplog.records if record.name == "gpuruntime.audit"]
    ends = [(line["caller"], line["end"], line["bytes"]) for line in lines]
    assert ("the-access", "complete", 2**20) in ends
    assert ("the-operator", "refused", 0) in ends
    logged = " ".join(str(record.__dict__) for record in caplog.records)
    assert not any(made.token in logged for made in tokens.values())
    found = usage(permissions, seen.requests, user=username)
    assert found.is_exact, str(found)
