"""`gpuruntime manager`: the API and the reconcilers in one process."""

from typing import Final

from attrs import evolve, frozen
from prometheus_client import CollectorRegistry

from gpuruntime.api.invocations import MANAGER_USER
from gpuruntime.bus import Bus
from gpuruntime.control import Manager, ManagerOptions
from gpuruntime.endpoints.auth.access_control import guard_pages
from gpuruntime.kube import Credentials
from gpuruntime.processes.access_gateway import AccessGateway, AccessGatewayConfig, build_access_gateway
from gpuruntime.processes.config.access_sections import ManagerGateway
from gpuruntime.processes.config.accessor_section import Accessor
from gpuruntime.processes.config.activator_sections import ManagerActivator
from gpuruntime.processes.config.api_sections import ApiConfig
from gpuruntime.processes.config.database_section import DatabaseSection
from gpuruntime.processes.config.keys import section
from gpuruntime.processes.config.manager_serverless import ManagerServerless
from gpuruntime.processes.config.sections import LeaderElection, StorageSection, min_ready_seconds_key, workers_key
from gpuruntime.processes.errors import StartError
from gpuruntime.processes.process_command import ProcessCommand
from gpuruntime.processes.wiring.activator import ActivatorOptions, declare_activator, install_activator
from gpuruntime.processes.wiring.api_server import ApiServer, connect, install_api, serve_api
from gpuruntime.processes.wiring.archive import install_archive
from gpuruntime.processes.wiring.credentials import cluster_credentials
from gpuruntime.processes.wiring.nats import install_bus
from gpuruntime.processes.wiring.reconcilers import MIN_READY_SECONDS, WORKERS, install_reconcilers

__all__ = ["COMMAND", "ManagerConfig", "build_manager", "gateway_config", "manager_gateway"]

_NAME: Final = "gpuruntime"


@frozen(kw_only=True)
class ManagerConfig(ApiConfig):
    """The config of `gpuruntime manager`."""

    leader_election: LeaderElection = section(LeaderElection)
    workers: int = workers_key(WORKERS)
    min_ready_seconds: int = min_ready_seconds_key(MIN_READY_SECONDS)
    storage: StorageSection = section(StorageSection)
    accessor: Accessor = section(Accessor, "Without an image and a public key, storages have no accessors.")
    serverless: ManagerServerless = section(
        ManagerServerless, "Without a sidecar's image and a URL, functions have no workers."
    )
    database: DatabaseSection = section(
        DatabaseSection, "Without a file, ended invocations are neither kept nor listed."
    )
    access_gateway: ManagerGateway = section(ManagerGateway, "Without an address there is no access gateway.")
    activator: ManagerActivator = section(ManagerActivator, "Without an address there is no activator.")


def build_manager(credentials: Credentials, config: ManagerConfig | None = None) -> ApiServer:
    """Build the process in a running loop, without serving; it needs no cluster until it runs.

    Requests are executed in every replica. The reconcilers run in the process that holds the lease, a replica of this
    one or a controller-manager.
    """
    chosen = config or ManagerConfig()
    election = chosen.leader_election.election(chosen.namespaces)
    manager = Manager(credentials, evolve(_options(chosen), election=election))
    install_reconcilers(manager, chosen)
    bus = install_bus(manager, chosen.serverless.nats, MANAGER_USER)
    _install_activator(manager, credentials, bus, chosen)
    return install_api(manager, credentials, chosen, bus, install_archive(manager, bus, chosen.database))


def _install_activator(manager: Manager, credentials: Credentials, bus: Bus | None, config: ManagerConfig) -> None:
    """The activator in this loop, if it is configured. The roles of the process allow it in any case."""
    address = config.activator.http_addr
    if address is None:
        declare_activator(manager, config.namespaces, rare="used where activator.httpAddr is set")
        return
    if bus is None:
        raise StartError("activator.httpAddr: expected serverless.nats.urls with it, got none")
    options = ActivatorOptions(namespaces=config.namespaces, replicas=config.activator.stream_replicas)
    installed = install_activator(manager, credentials, bus, options)
    installed.serve(address, config.tls, config.connections.limits)


async def _run(config: ManagerConfig) -> None:
    """Serve until SIGTERM or SIGINT; requests in progress are finished.

    Raises:
        StartError: a required cluster does not answer, or the API cannot be served as configured.
        ListenError: the address cannot be listened on.
    """
    manager, api = await connect(config, _options(config), build_manager)
    access_control = serve_api(manager, manager.observability.app, api, config)
    guard_pages(manager.observability.app, access_control)
    gateway = manager_gateway(config, manager.observability.registry)
    if gateway is not None:
        manager.add(gateway.manager.run, "access gateway", group="always")
    await manager.run()


def manager_gateway(config: ManagerConfig, registry: CollectorRegistry) -> AccessGateway | None:
    """The access gateway in this loop, with a cache and an account of its own; None if it is not configured.

    The metrics of its streams are exported by `registry`; those of its requests and of its cache are not.

    Raises:
        StartError: it cannot be served as configured.
    """
    own = gateway_config(config)
    if own is None:
        return None
    options = ManagerOptions(f"{_NAME}-access-gateway", grace=config.shutdown_grace)
    gateway = build_access_gateway(cluster_credentials(config.access_gateway.kubeconfig), own, options)
    gateway.serve(own, streams_to=registry)
    return gateway


def gateway_config(config: ManagerConfig) -> AccessGatewayConfig | None:
    """The config of the access gateway in this process; None if it is not configured."""
    chosen = config.access_gateway
    if chosen.http_addr is None:
        return None
    return AccessGatewayConfig(
        namespaces=config.namespaces,
        http_addr=chosen.http_addr,
        signing_key_file=chosen.signing_key_file,
        tls=config.tls,
        auth=config.auth,
        connections=config.connections,
        streams=chosen.streams,
        shutdown_grace=config.shutdown_grace,
    )


def _options(config: ManagerConfig) -> ManagerOptions:
    return ManagerOptions(_NAME, grace=config.shutdown_grace, signals=True)


COMMAND: Final = ProcessCommand(
    "manager",
    "Run the API and the reconcilers in one process until SIGTERM or Ctrl-C. Of several replicas one reconciles,"
    "\nand all serve the API. /swagger/index.html documents the routes; /livez, /readyz and /metrics are on the same"
    "\naddress.",
    ManagerConfig,
    _run,
)
