"""A manager with a real controller on a real API server: the whole library at work."""

import asyncio
from pathlib import Path

import aiohttp
import pytest
from attrs import evolve, frozen

from gpuruntime.control.controllers.controller import Controller
from gpuruntime.control.controllers.reconcile import Result, RunInfo
from gpuruntime.control.controllers.sources import Watch
from gpuruntime.control.controllers.triggers import enqueue_object, enqueue_owner
from gpuruntime.control.informers.store import Store
from gpuruntime.control.manager import Election, Manager, ManagerOptions
from gpuruntime.control.serving.http_site import HttpAddress, ListenError
from gpuruntime.kube.auth.credentials import Credentials
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.kube.builtin.core import ConfigMap, Secret
from gpuruntime.kube.client import Client
from gpuruntime.meta import FrozenDict, ObjectKey, ObjectMeta, set_controller
from gpuruntime.testing import AdminClient, AuditLog, ClusterAccess
from gpuruntime.testing.plugin import AccountFactory
from tests.control.scenes import LONG_LEASE, eventually, managing

RULES = [
    {"apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": ["*"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]},
    {"apiGroups": ["events.k8s.io", ""], "resources": ["events"], "verbs": ["create", "patch"]},
]


@frozen
class Mirror:
    """Keeps a Secret beside every ConfigMap with the label mirror=yes."""

    maps: Store[ConfigMap]
    secrets: Store[Secret]
    client: Client

    async def reconcile(self, key: ObjectKey, _context: RunInfo) -> Result:
        source = self.maps.get(key)
        if source is None or source.metadata.labels.get("mirror") != "yes":
            return Result.done()
        mirror = self.secrets.get(key)
        if mirror is None:
            metadata = set_controller(ObjectMeta(name=key.name, namespace=key.namespace), source)
            await self.client.create(Secret(metadata, type="Opaque", string_data=source.data))
        elif mirror.metadata.annotations.get("of") != source.metadata.resource_version:
            annotations = FrozenDict({**mirror.metadata.annotations, "of": source.metadata.resource_version})
            await self.client.update(evolve(mirror, metadata=evolve(mirror.metadata, annotations=annotations)))
        return Result.done()


def mirror_manager(
    credentials: Credentials,
    namespace: str,
    *,
    election: Election | None = None,
    http: HttpAddress | None = None,
    stream_lists: bool = False,
) -> tuple[Manager, Controller[ObjectKey]]:
    options = ManagerOptions("mirror", http=http, election=election, grace=5.0, stream_lists=stream_lists)
    manager = Manager(credentials, options)
    maps = manager.cache.informer(ConfigMap, namespaces=[namespace])
    secrets = manager.cache.informer(Secret, namespaces=[namespace])
    controller = manager.add_controller(
        "mirror",
        Mirror(maps.store, secrets.store, manager.client),
        [Watch(maps, enqueue_object()), Watch(secrets, enqueue_owner(ConfigMap.KIND))],
    )
    return manager, controller


def create_map(admin: AdminClient, namespace: str, name: str) -> None:
    body = {"metadata": {"name": name, "labels": {"mirror": "yes"}}, "data": {"a": "1"}}
    admin.create(f"/api/v1/namespaces/{namespace}/configmaps", body)


def secrets_of(admin: AdminClient, namespace: str) -> list[str]:
    items = admin.get(f"/api/v1/namespaces/{namespace}/secrets")["items"]
    return [item["metadata"]["name"] for item in items]


def is_marked(admin: AdminClient, namespace: str) -> bool:
    items = admin.get(f"/api/v1/namespaces/{namespace}/secrets")["items"]
    return any("of" in (item["metadata"].get("annotations") or {}) for item in items)


async def test_a_controller_makes_repairs_and_then_writes_nothing(
    kube_cluster: ClusterAccess, kube_namespace: str, kube_account: AccountFactory, kube_audit: AuditLog
) -> None:
    account = kube_account(rules=RULES)
    admin = kube_cluster.admin()
    secrets = f"/api/v1/namespaces/{kube_namespace}/secrets"
    manager, controller = mirror_manager(from_kubeconfig(account.kubeconfig), kube_namespace)
    with kube_audit.recording() as seen:
        async with managing(manager):
            await asyncio.to_thread(create_map, admin, kube_namespace, "one")
            await eventually(lambda: is_marked(admin, kube_namespace))
            await asyncio.to_thread(admin.delete, f"{secrets}/one")
            await eventually(lambda: is_marked(admin, kube_namespace))

            runs = controller.counters.results["success"]
            controller.queue.add(ObjectKey(kube_namespace, "one"))
            await eventually(lambda: controller.counters.results["success"] > runs)

    writes = [(write.verb, write.resource) for write in seen.writes(user=account.username)]
    assert writes == [("create", "secrets"), ("update", "secrets")] * 2
    assert controller.counters.errors == 0


@pytest.mark.parametrize(("stream_lists", "verbs"), [(False, ["list", "watch"]), (True, ["watch"])])
async def test_a_state_is_listed_or_streamed_as_the_options_say(
    stream_lists: bool,
    verbs: list[str],
    kube_cluster: ClusterAccess,
    kube_namespace: str,
    kube_account: AccountFactory,
    kube_audit: AuditLog,
) -> None:
    account = kube_account(rules=RULES)
    admin = kube_cluster.admin()
    manager, _ = mirror_manager(from_kubeconfig(account.kubeconfig), kube_namespace, stream_lists=stream_lists)
    create_map(admin, kube_namespace, "one")

    with kube_audit.recording() as seen:
        async with managing(manager):
            await eventually(lambda: is_marked(admin, kube_namespace))

    ours = [request for request in seen.requests if request.user == account.username]
    assert [request.verb for request in ours if request.resource == "configmaps"] == verbs


async def test_probes_metrics_and_debug_pages_tell_what_goes_on(
    kube_cluster: ClusterAccess, kube_namespace: str
) -> None:
    credentials = from_kubeconfig(kube_cluster.kubeconfig)
    manager, _ = mirror_manager(credentials, kube_namespace, http=HttpAddress())
    site = manager.sites[0]
    async with managing(manager), aiohttp.ClientSession() as session:
        await site.listening()
        await manager.cache.synced(within=30)

        async def page(path: str) -> tuple[int, str]:
            async with session.get(f"{site.bound.url}{path}") as response:
                return response.status, await response.text()

        assert (await page("/healthz"))[0] == 200
        assert (await page("/readyz"))[0] == 200
        status, metrics = await page("/metrics")
        assert status == 200
        for name in (
            'controller_runtime_reconcile_total{controller="mirror",result="success"}',
            'workqueue_depth{controller="mirror"',
            "rest_client_requests_total{",
            'gpuruntime_informer_objects{kind="v1 ConfigMap"',
        ):
            assert name in metrics
        assert '"mirror"' in (await page("/debug/queues"))[1]


async def test_two_replicas_take_turns_and_the_second_repeats_no_write(
    kube_cluster: ClusterAccess, kube_namespace: str, kube_account: AccountFactory, kube_audit: AuditLog
) -> None:
    account = kube_account(rules=RULES)
    admin = kube_cluster.admin()

    def replica(name: str) -> tuple[Manager, Controller[ObjectKey]]:
        election = Election(kube_namespace, "mirror", identity=name, timing=LONG_LEASE)
        return mirror_manager(from_kubeconfig(account.kubeconfig), kube_namespace, election=election)

    with kube_audit.recording() as seen:
        first, _ = replica("first")
        second, controller = replica("second")
        async with managing(second):
            async with managing(first):
                create_map(admin, kube_namespace, "one")
                await eventually(lambda: bool(secrets_of(admin, kube_namespace)))
            await eventually(lambda: second.election is not None and second.election.is_leader)
            create_map(admin, kube_namespace, "two")
            await eventually(lambda: len(secrets_of(admin, kube_namespace)) == 2)
            await eventually(lambda: controller.counters.results["success"] >= 2)

    created = [write for write in seen.writes(namespace=kube_namespace) if write.verb == "create"]
    assert len([write for write in created if write.resource == "secrets"]) == 2


async def test_a_manager_starts_without_a_server_and_stops_at_once_leaving_foreign_tasks_alone(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(str(ClusterAccess.kubeconfig_for(_unreachable(tmp_path), "token")))
    foreign = asyncio.create_task(asyncio.Event().wait())
    before = asyncio.all_tasks()
    manager, _ = mirror_manager(from_kubeconfig(kubeconfig), "default", http=HttpAddress())

    async with managing(manager):
        await manager.sites[0].listening()
        async with aiohttp.ClientSession() as session, session.get(f"{manager.sites[0].bound.url}/readyz") as response:
            assert response.status == 500

    assert asyncio.all_tasks() == before
    foreign.cancel()


def _unreachable(directory: Path) -> ClusterAccess:
    authority = directory / "ca.crt"
    authority.write_bytes(b"")
    return ClusterAccess("http://127.0.0.1:1", directory, authority, directory, directory, directory, None)


async def test_an_address_in_use_stops_the_manager_with_a_clear_error(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(str(ClusterAccess.kubeconfig_for(_unreachable(tmp_path), "token")))
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        manager = Manager(from_kubeconfig(kubeconfig), ManagerOptions("mirror", http=HttpAddress("127.0.0.1", port)))

        with pytest.raises(ListenError, match=f"127.0.0.1:{port}: .*in use"):
            await manager.run()


async def test_a_part_that_fails_takes_the_manager_down_in_order(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(str(ClusterAccess.kubeconfig_for(_unreachable(tmp_path), "token")))
    manager = Manager(from_kubeconfig(kubeconfig), ManagerOptions("mirror"))
    order: list[str] = []

    async def steady() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            order.append("steady ended")

    async def failing() -> None:
        order.append("failing")
        raise LookupError("boom")

    manager.add(steady, "steady", group="http")
    manager.add(failing, "failing", group="always")

    with pytest.raises(LookupError, match="boom"):
        await manager.run()
    assert order == ["failing", "steady ended"]


async def test_cancelling_gives_the_same_grace_as_stopping(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(str(ClusterAccess.kubeconfig_for(_unreachable(tmp_path), "token")))
    manager = Manager(from_kubeconfig(kubeconfig), ManagerOptions("mirror", grace=0.2))
    started, release = asyncio.Event(), asyncio.Event()

    async def stubborn() -> None:
        try:
            started.set()
            await asyncio.Event().wait()
        finally:
            await release.wait()

    manager.add(stubborn, "stubborn", group="always")
    running_manager = asyncio.create_task(manager.run())
    await started.wait()

    running_manager.cancel()
    await asyncio.wait([running_manager])

    assert running_manager.cancelled()
    release.set()
    await asyncio.sleep(0)


async def test_leader_work_that_ends_by_itself_is_a_failure(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(str(ClusterAccess.kubeconfig_for(_unreachable(tmp_path), "token")))
    manager = Manager(from_kubeconfig(kubeconfig), ManagerOptions("mirror"))

    async def brief() -> None:
        """Returns at once."""

    manager.add(brief, "brief")

    with pytest.raises(RuntimeError, match="brief"):
        await manager.run()
