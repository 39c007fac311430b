"""Invocations over HTTP: the process runtime-api as it is wired, on a real control plane and a real NATS server."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
from aiohttp import web
from attrs import field, frozen

from gpuruntime.api.gpufunction import GPUFunction
from gpuruntime.api.invocations import ACTIVATOR_USER, API_USER, RESULT_STORE_USER, RESULTS_STREAM
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.bus import Bus
from gpuruntime.control import HttpAddress
from gpuruntime.endpoints.server.route import PREFIX
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.meta import ObjectKey, decode
from gpuruntime.processes.config.api_sections import Auth
from gpuruntime.processes.config.database_section import DatabaseSection
from gpuruntime.processes.config.nats_section import NatsSection
from gpuruntime.processes.config.result_store_section import ResultStoreSection
from gpuruntime.processes.config.serverless_section import ServerlessSection
from gpuruntime.processes.result_store import ResultStoreConfig, build_result_store
from gpuruntime.processes.runtime_api import RuntimeApiConfig, build_runtime_api
from gpuruntime.processes.wiring.api_server import serve_api
from gpuruntime.service.invocations.streams import ensure_queue, ensure_shared_streams
from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.nats import ADMIN, NatsServer
from tests.bus.connected import connected
from tests.control.scenes import managing
from tests.service.invocations.invocation_scenes import Worker

__all__ = ["INVOCATIONS", "Answer", "Invoking", "invoking", "store_of"]

INVOCATIONS: Final = "/serverless/invocations"
_FUNCTIONS: Final = "/apis/runtime.lokiwager.io/v1alpha1/namespaces/{}/gpufunctions"
_LOOPBACK: Final = HttpAddress("127.0.0.1", 0)
_FOREVER: Final = aiohttp.ClientTimeout(total=None)


@frozen
class Answer:
    """A response."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def data(self) -> Any:
        assert "data" in self.json, self.json
        return self.json["data"]

    @property
    def code(self) -> str:
        return str(self.json["error"]["code"])

    @property
    def paths(self) -> set[str]:
        """The paths of the faults."""
        return {fault["path"] for fault in self.json["error"].get("details", ())}


@frozen
class Invoking:
    """A caller of the API, and a worker of its functions. The function `echo` has a queue; `queueless` has none yet."""

    client: aiohttp.ClientSession
    namespace: str
    worker: Worker
    admin: Bus

    @property
    def echo(self) -> ObjectKey:
        return ObjectKey(self.namespace, "echo")

    async def invoke(self, **fields: Any) -> Answer:
        """Send an invocation of the function `echo`; None leaves a field out."""
        given = {"serverlessRequestID": "echo", **fields}
        return await self.send("POST", INVOCATIONS, {name: given[name] for name in given if given[name] is not None})

    async def get(self, path: str) -> Answer:
        return await self.send("GET", f"{INVOCATIONS}{path}")

    async def send(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Send a request: bytes as they are, anything else as JSON. In the names of headers, _ stands for -."""
        sent = {name.replace("_", "-"): text for name, text in headers.items()}
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        if data is not None and not isinstance(body, bytes):
            sent.setdefault("Content-Type", "application/json")
        async with self.client.request(method, PREFIX + path, data=data, headers=sent, timeout=_FOREVER) as response:
            return Answer(response.status, response.headers, await response.read())

    async def forget_results(self) -> None:
        """Lose all results that NATS has, as if their time was over."""
        await self.admin.jetstream.purge(RESULTS_STREAM)

    async def ended(self, payload: bytes | None = None, **parts: Any) -> None:
        """Take the next invocation of `echo` and end it."""
        await self.worker.end(await self.worker.take(self.echo), payload, **parts)

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """A worker that ends invocations of `echo` with their payloads, for the length of the block."""
        task = asyncio.create_task(self.worker.serve(self.echo))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])


@asynccontextmanager
async def invoking(
    access: ClusterAccess,
    namespace: str,
    server: NatsServer,
    *,
    is_configured: bool = True,
    token_file: Path | None = None,
    **keys: Any,
) -> AsyncIterator[Invoking]:
    """runtime-api for the functions of a namespace. `keys` are further keys of its config."""
    created = [
        _create(access, namespace, "echo", {"maxQueued": 3, "maxRequestBytes": "64Ki", "maxQueuedBytes": "16Mi"}),
        _create(access, namespace, "queueless", {}),
    ]
    config = RuntimeApiConfig(
        namespaces=Namespaces((namespace,), (f"{namespace}-stock",), namespace),
        http_addr=_LOOPBACK,
        metrics_bind_address=_LOOPBACK,
        auth=Auth(token_file=token_file),
        serverless=ServerlessSection(nats_of(server, API_USER.name) if is_configured else NatsSection()),
        **keys,
    )
    async with AsyncExitStack() as stack:
        activator = await stack.enter_async_context(connected(server.options(ACTIVATOR_USER.name)))
        await ensure_shared_streams(activator)
        await ensure_queue(activator, created[0])
        api = build_runtime_api(from_kubeconfig(access.kubeconfig), config)
        serve_api(api.manager, web.Application(), api.api, config, group="serving")
        await stack.enter_async_context(managing(api.manager))
        await api.manager.cache.synced()
        await api.manager.sites[-1].listening()
        client = aiohttp.ClientSession(api.manager.sites[-1].bound.url)
        admin = await stack.enter_async_context(connected(server.options(ADMIN.name)))
        yield Invoking(await stack.enter_async_context(client), namespace, Worker(activator), admin)


@asynccontextmanager
async def store_of(access: ClusterAccess, server: NatsServer, directory: Path) -> AsyncIterator[ResultStoreSection]:
    """A result store on this machine, and how runtime-api reaches it."""
    config = ResultStoreConfig(
        http_addr=_LOOPBACK,
        metrics_bind_address=_LOOPBACK,
        database=DatabaseSection(directory / "results.db"),
        serverless=ServerlessSection(nats_of(server, RESULT_STORE_USER.name)),
    )
    store = build_result_store(from_kubeconfig(access.kubeconfig), config)
    store.serve(config)
    async with managing(store.manager):
        await store.manager.sites[-1].listening()
        yield ResultStoreSection(store.manager.sites[-1].bound.url)


def nats_of(server: NatsServer, user: str) -> NatsSection:
    """How a process of this user reaches a server."""
    files = server.files
    return NatsSection((server.url,), user_file=files.user_file(user), password_file=files.password_file(user))


def _create(access: ClusterAccess, namespace: str, name: str, limits: Mapping[str, Any]) -> GPUFunction:
    body = {
        "apiVersion": "runtime.lokiwager.io/v1alpha1",
        "kind": "GPUFunction",
        "metadata": {"name": name},
        "spec": {"specName": "g1.1", "image": "echo", "cpu": "1", "memory": "1Gi", "invocation": dict(limits)},
    }
    return decode(GPUFunction, access.admin().create(_FUNCTIONS.format(namespace), body))
