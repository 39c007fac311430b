"""The API in a manager: the service behind it, its routes, and the authentication of callers."""

import asyncio
import socket
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from aiohttp import web
from attrs import frozen

from gpuruntime.api.invocations import Archive
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.bus import Bus
from gpuruntime.control import OFFLINE_CREDENTIALS, Manager, ManagerOptions, Permission, allow
from gpuruntime.endpoints.auth.access_control import AccessControl
from gpuruntime.endpoints.server.gates import namespace_gate, not_ready_reason, readiness_gate
from gpuruntime.endpoints.server.route import Route
from gpuruntime.kube import Client, Credentials
from gpuruntime.kube.builtin.authentication import TokenReview
from gpuruntime.kube.builtin.core import Namespace
from gpuruntime.processes.config.api_sections import ApiConfig, KubeMode
from gpuruntime.processes.wiring.authentication import guarded
from gpuruntime.processes.wiring.credentials import cluster_credentials, require_cluster
from gpuruntime.processes.wiring.invocations import install_invocations
from gpuruntime.processes.wiring.status_reporter import StatusReporter
from gpuruntime.service.compat.cluster import ClusterMachines
from gpuruntime.service.compat.memory import MemoryMachines
from gpuruntime.service.invocations.use_cases import InvocationService
from gpuruntime.service.objects.namespace_checks import NamespaceChecks
from gpuruntime.service.reads.inventory import Inventory
from gpuruntime.service.reads.metrics import InventoryCollector
from gpuruntime.service.wiring import Service, ServiceOptions, install_service
from gpuruntime.web.app import cluster_routes, install, machine_routes
from gpuruntime.web.resources.health import ClusterProbe, HealthRoutes
from gpuruntime.web.resources.invocations import invocation_routes

__all__ = ["Api", "ApiServer", "connect", "install_api", "memory_api", "serve_api"]

C = TypeVar("C", bound=ApiConfig)


@frozen
class Api:
    """The routes of the API and what they depend on. `client` reviews tokens; None without a cluster."""

    routes: tuple[Route, ...]
    health: HealthRoutes
    client: Client | None = None
    close_streams: Callable[[], None] = lambda: None

    async def keep_streams(self) -> None:
        """Keep live streams open until cancelled; then close them, so that their callers reconnect elsewhere."""
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.close_streams()


@frozen
class ApiServer:
    """A manager with the API of its cluster: the service that executes requests, and the routes."""

    manager: Manager
    service: Service
    api: Api

    @property
    def permissions(self) -> tuple[Permission, ...]:
        """The permissions that the process needs."""
        return self.manager.permissions


def install_api(
    manager: Manager,
    credentials: Credentials,
    config: ApiConfig,
    bus: Bus | None = None,
    archive: Archive | None = None,
) -> ApiServer:
    """Have the process of a manager execute requests, whether it leads or not. Before it runs.

    Until the caches have synced, only /health is served. Without a bus invocations are refused, and without an archive
    lists of those that ended.
    """
    namespaces, election = config.namespaces, manager.options.election
    identity = f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}" if election is None else election.identity
    keep = timedelta(seconds=config.keep_operations)
    options = ServiceOptions(namespaces, keep, identity=identity)
    service = install_service(manager, credentials, options)
    manager.declare(
        allow(TokenReview, "create", rare="used for callers with tokens of the cluster"),
        allow(Namespace, "get", names=namespaces.all, rare="used before writes, to find a namespace that is gone"),
    )
    invocations = install_invocations(manager, namespaces, bus, archive)
    return ApiServer(manager, service, _cluster_api(manager, service, namespaces, invocations, bus))


def _cluster_api(
    manager: Manager, service: Service, namespaces: Namespaces, invocations: InvocationService, bus: Bus | None
) -> Api:
    inventory = Inventory.of(manager.cache, namespaces)
    InventoryCollector(manager.observability.registry, inventory)
    health = HealthRoutes(inventory.take, ClusterProbe(manager.reach_server).error, _now, _now())
    defaults = (namespaces.default_instance, namespaces.default_stock)
    machines = ClusterMachines(service.operations, service.units, service.unit_reads, *defaults)
    routes = (*machine_routes(health, machines), *cluster_routes(service, bus))
    checks = NamespaceChecks(service.units.client, namespaces.all)
    # Invocations write nothing to the cluster, so they do not ask for its namespaces.
    served = (*namespace_gate(routes, checks), *invocation_routes(invocations))
    guarded = readiness_gate(served, not_ready_reason(manager.cache))
    return Api(guarded, health, service.units.client, service.close_watches)


def memory_api() -> Api:
    """The API without a cluster: health, stocks and VMs."""
    machines = MemoryMachines()

    async def kube_error() -> None:
        """Without a cluster there is no error of it."""

    health = HealthRoutes(machines.take, kube_error, _now, _now())
    return Api(machine_routes(health, machines), health)


async def connect(
    config: C, offline: ManagerOptions, build: Callable[[Credentials, C], ApiServer]
) -> tuple[Manager, Api]:
    """The manager and the API of a process, as its `kubeMode` says: built on the cluster, or `offline` in memory.

    Raises:
        StartError: a cluster is required and does not answer.
    """
    if config.kube_mode is KubeMode.OFF:
        return Manager(OFFLINE_CREDENTIALS, offline), memory_api()
    credentials = cluster_credentials(config.kubeconfig)
    if config.kube_mode is KubeMode.REQUIRED:
        await require_cluster(credentials)
    server = build(credentials, config)
    return server.manager, server.api


def serve_api(manager: Manager, app: web.Application, api: Api, config: ApiConfig, **serving: Any) -> AccessControl:
    """Serve the API in an application, and log the state of the runtime. Before the manager runs.

    `serving` are options of `Manager.serve`. Returns the access control of the API.

    Raises:
        StartError: the token file or the certificate is invalid, or the address would be open to other machines.
    """
    access_control, tls = guarded(config.http_addr, config.auth, config.tls, api.client)
    install(app, api.routes, access_control, manager.observability.registry)
    manager.serve(app, config.http_addr, tls=tls, limits=config.connections.limits, **serving)
    manager.add(StatusReporter(api.health.health, config.report_interval).run, "status reporter", group="always")
    return access_control


def _now() -> datetime:
    return datetime.now(UTC)
