"""The activator before a real API server and a real NATS server, with exactly its permissions."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, WSServerHandshakeError
from attrs import frozen

from gpuruntime.api.gpufunction import GPUFunction
from gpuruntime.api.invocations import function_stream
from gpuruntime.api.names import FUNCTION_FINALIZER, FUNCTION_LABEL, UNIT_LABEL
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.api.serverless import TOKEN_AUDIENCE
from gpuruntime.bus import Bus
from gpuruntime.control import HttpAddress
from gpuruntime.control.permissions.offline_credentials import OFFLINE_CREDENTIALS
from gpuruntime.dispatch.activator.workers.route import WORKER_PATH
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.meta import ObjectKey, decode
from gpuruntime.processes.activator import ActivatorConfig, ActivatorProcess, build_activator
from gpuruntime.processes.config.nats_section import NatsSection
from gpuruntime.processes.config.serverless_section import ServerlessSection
from gpuruntime.testing import AdminClient, AuditLog, ClusterAccess, RefusedError
from gpuruntime.testing.nats import NatsServer
from gpuruntime.testing.permissions import granted_account, usage
from tests.bus.connected import connected
from tests.control.scenes import managing
from tests.dispatch.activator.dispatch_scenes import Queue
from tests.dispatch.activator.scripted_worker import Answer, ScriptedWorker, TakenRun, working
from tests.product_scenes import eventually, kube_namespace, product

__all__ = ["kube_namespace", "product"]

FUNCTIONS = "/apis/runtime.lokiwager.io/v1alpha1/namespaces/{}/gpufunctions"


@frozen
class World:
    """A namespace with functions and pods, and an activator that serves it."""

    admin: AdminClient
    namespace: str
    process: ActivatorProcess
    bus: Bus
    username: str

    @property
    def url(self) -> str:
        return self.process.manager.sites[1].bound.url

    def create_function(self, name: str) -> GPUFunction:
        kind = {"apiVersion": "runtime.lokiwager.io/v1alpha1", "kind": "GPUFunction"}
        spec = {"specName": "g1.1", "cpu": "1", "memory": "1Gi", "image": "busybox"}
        made = self.admin.create(FUNCTIONS.format(self.namespace), {**kind, "metadata": {"name": name}, "spec": spec})
        return decode(GPUFunction, made)

    def function(self, name: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = self.admin.get(f"{FUNCTIONS.format(self.namespace)}/{name}")
        except RefusedError as error:
            if error.status != 404:
                raise
            return None
        return found

    def create_pod(self, name: str, function: str = "") -> str:
        """A pod that no scheduler takes: a worker of a function, or of none. Returns its UID."""
        labels = {FUNCTION_LABEL: function, UNIT_LABEL: f"unit-{name}"} if function else {}
        spec = {"schedulerName": "none", "containers": [{"name": "main", "image": "busybox"}]}
        body = {"metadata": {"name": name, "labels": labels}, "spec": spec}
        made = self.admin.create(f"/api/v1/namespaces/{self.namespace}/pods", body)
        return str(made["metadata"]["uid"])

    def token(self, pod: str = "", uid: str = "", audience: str = TOKEN_AUDIENCE) -> str:
        """A token of the namespace's default account, bound to a pod."""
        bound = {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid}} if pod else {}
        spec = {"audiences": [audience], "expirationSeconds": 600, **bound}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/default/token"
        return str(self.admin.create(path, body)["status"]["token"])

    async def status_of(self, token: str | None) -> int:
        """What a connection with a token is answered."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        async with ClientSession() as session:
            try:
                async with session.ws_connect(f"{self.url}{WORKER_PATH}", headers=headers):
                    return 101
            except WSServerHandshakeError as error:
                return error.status


@asynccontextmanager
async def activating(access: ClusterAccess, namespace: str, nats: NatsServer, directory: Path) -> AsyncIterator[World]:
    files = nats.files
    section = NatsSection(
        urls=(nats.url,), user_file=files.user_file("activator"), password_file=files.password_file("activator")
    )
    config = ActivatorConfig(
        namespaces=Namespaces((namespace,), ("stock",), namespace),
        http_addr=HttpAddress(),
        metrics_bind_address=HttpAddress(),
        serverless=ServerlessSection(nats=section),
        shutdown_grace=10.0,
    )
    permissions = build_activator(OFFLINE_CREDENTIALS, config).permissions
    with granted_account(access, permissions, namespace=namespace, directory=directory) as account:
        made = build_activator(from_kubeconfig(account.kubeconfig), config)
        made.serve(config)
        async with managing(made.manager), connected(nats.options()) as bus:
            for site in made.manager.sites:
                await site.listening()
            await made.installed.activator.key.known()
            yield World(access.admin(), namespace, made, bus, account.username)


@pytest.fixture
async def world(
    product: ClusterAccess, kube_namespace: str, nats_server: NatsServer, tmp_path: Path
) -> AsyncIterator[World]:
    async with activating(product, kube_namespace, nats_server, tmp_path) as world:
        yield world


async def echo(run: TakenRun) -> Answer:
    return Answer(run.body)


async def test_only_pods_of_workers_connect_and_each_gets_the_work_of_its_function(world: World) -> None:
    for name in ("one", "two"):
        world.create_function(name)
    uids = {
        "worker-one": world.create_pod("worker-one", "one"),
        "worker-two": world.create_pod("worker-two", "two"),
        "other": world.create_pod("other"),
    }
    tokens = {name: world.token(name, uid) for name, uid in uids.items()}

    refused = {
        "no token": await world.status_of(None),
        "garbage": await world.status_of("garbage"),
        "wrong audience": await world.status_of(world.token("worker-one", uids["worker-one"], "gpuruntime")),
        "not of a pod": await world.status_of(world.token()),
        "not a worker": await world.status_of(tokens["other"]),
    }
    one, two = (Queue(world.bus, decode(GPUFunction, world.function(name) or {})) for name in ("one", "two"))
    async with (
        working(world.url, ScriptedWorker(tokens["worker-one"], function=echo)) as first,
        working(world.url, ScriptedWorker(tokens["worker-two"], function=echo)) as second,
    ):
        await until_queued(world, "one")
        await until_queued(world, "two")
        ended = [await one.ended(await one.accept("a", b"1")), await two.ended(await two.accept("b", b"2"))]
    world.admin.delete(f"/api/v1/namespaces/{world.namespace}/pods/worker-one?gracePeriodSeconds=0")
    await eventually(lambda: world.process.installed.activator.slots == {})

    assert refused == {
        "no token": 401,
        "garbage": 401,
        "wrong audience": 401,
        "not of a pod": 403,
        "not a worker": 403,
    }
    assert [run.frame.id for run in first.taken] == ["a"]
    assert [run.frame.id for run in second.taken] == ["b"]
    assert [each.record.worker for each in ended] == ["unit-worker-one", "unit-worker-two"]


async def until_queued(world: World, name: str) -> None:
    """Return when the queue of a function is there."""
    stream = function_stream(ObjectKey(world.namespace, name))
    while await world.bus.jetstream.consumer_info(stream, "workers") is None:  # noqa: ASYNC110 - there is no event
        await asyncio.sleep(0.05)


async def test_a_function_has_a_queue_from_its_creation_to_its_end_with_no_write_too_many(
    world: World, kube_audit: AuditLog
) -> None:
    stream = function_stream(ObjectKey(world.namespace, "echo"))
    with kube_audit.recording() as seen:
        function = world.create_function("echo")
        await until_queued(world, "echo")
        held = world.function("echo")
        queue = Queue(world.bus, function)
        waiting = await queue.accept("waiting")
        # Everything is made again on an empty server, and on a second look nothing is written.
        await world.bus.jetstream.delete_stream(stream)
        world.admin.merge(f"{FUNCTIONS.format(world.namespace)}/echo", {"spec": {"invocation": {"maxQueued": 7}}})
        await until_queued(world, "echo")
        info = await world.bus.jetstream.stream_info(stream)
        waiting = await queue.accept("waiting")
        world.admin.delete(f"{FUNCTIONS.format(world.namespace)}/echo")
        ended = await queue.ended(waiting)
        await eventually(lambda: world.function("echo") is None)

    writes = [each for each in seen.requests if each.user == world.username and each.verb == "patch"]
    found = usage(world.process.permissions, seen.requests, user=world.username)
    assert held is not None
    assert held["metadata"]["finalizers"] == [FUNCTION_FINALIZER]
    assert info is not None
    assert info.config["max_msgs"] == 7
    assert (ended.record.state, ended.record.failure_class) == ("cancelled", "function_deleted")
    assert await world.bus.jetstream.stream_info(stream) is None
    assert len(writes) == 2, "the finalizer is added once and removed once"
    assert found.missing == ()
