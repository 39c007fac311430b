"""`gpuruntime access-gateway`: the files of storages, in any number of replicas. It writes nothing to the cluster."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aiohttp import web
from attrs import evolve, frozen
from prometheus_client import CollectorRegistry

from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.control import HttpAddress, Informer, Manager, ManagerOptions, Permission
from gpuruntime.gateway.proxy.storages import AccessorAddresses
from gpuruntime.kube import Credentials
from gpuruntime.processes.config.access_sections import SIGNING_KEY_FILE, StreamSettings
from gpuruntime.processes.config.api_sections import Auth, Connections, Tls
from gpuruntime.processes.config.keys import Fault, key, section
from gpuruntime.processes.config.notations import ADDRESS, DURATION, FILE, show_seconds
from gpuruntime.processes.config.sections import ProcessConfig, metrics_bind_address_key
from gpuruntime.processes.process_command import ProcessCommand
from gpuruntime.processes.wiring.credentials import cluster_credentials
from gpuruntime.processes.wiring.draining import CloseConnections
from gpuruntime.processes.wiring.gateway_server import GatewayOptions, serve_gateway, watch_served_storages

__all__ = ["COMMAND", "AccessGateway", "AccessGatewayConfig", "build_access_gateway"]

_NAME: Final = "gpuruntime-access-gateway"
_STOP_SECONDS: Final = 2.0
_LEAST_DRAIN_SECONDS: Final = 1.0


@frozen(kw_only=True)
class AccessGatewayConfig(ProcessConfig):
    """The config of `gpuruntime access-gateway`."""

    http_addr: HttpAddress = key(
        ADDRESS, HttpAddress("127.0.0.1", 8090), "address of the gateway; :8090 is port 8090 of all interfaces"
    )
    metrics_bind_address: HttpAddress = metrics_bind_address_key(8083)
    signing_key_file: Path | None = key(FILE, None, SIGNING_KEY_FILE)
    tls: Tls = section(Tls)
    auth: Auth = section(
        Auth, "Without tokens, callers on this machine need no credentials, and all other callers are refused."
    )
    connections: Connections = section(
        Connections,
        "A new connection replaces one that waits for a request; where all serve requests, the new one gets 503.",
    )
    streams: StreamSettings = section(StreamSettings)
    drain_delay: float = key(
        DURATION, 0.0, "time to serve on after readiness is withdrawn, until load balancers have noticed"
    )

    def faults(self) -> Iterator[Fault]:
        if self.drain_delay >= self.shutdown_grace:
            grace, delay = show_seconds(self.shutdown_grace), show_seconds(self.drain_delay)
            yield Fault("drainDelay", f"expected less than shutdownGrace ({grace}), got {delay}")
        if self.http_addr == self.metrics_bind_address and self.http_addr.port:
            yield Fault("metricsBindAddress", "expected another address than httpAddr, got the same")


@frozen
class AccessGateway:
    """A manager with the gateway of its cluster."""

    manager: Manager
    storages: Informer[GPUStorage]

    @property
    def permissions(self) -> tuple[Permission, ...]:
        """The permissions that the process needs."""
        return self.manager.permissions

    def serve(
        self,
        config: AccessGatewayConfig,
        addresses: AccessorAddresses | None = None,
        streams_to: CollectorRegistry | None = None,
    ) -> None:
        """Serve the gateway when the manager runs.

        Args:
            config: how it is served.
            addresses: those of accessors; by default in the cluster.
            streams_to: the registry that exports the metrics of streams; by default that of the manager.

        Raises:
            StartError: it cannot be served as configured.
        """
        app = web.Application()
        app.on_response_prepare.append(CloseConnections(self.manager).on_response_prepare)
        drain = max(config.shutdown_grace - config.drain_delay - _STOP_SECONDS, _LEAST_DRAIN_SECONDS)
        options = GatewayOptions(
            config.http_addr,
            config.auth,
            config.tls,
            config.connections.limits,
            config.signing_key_file,
            config.streams.limits,
            streams_to=streams_to,
        )
        chosen = options if addresses is None else evolve(options, addresses=addresses)
        serve_gateway(self.manager, app, self.storages, chosen, group="serving", drain=drain)


def build_access_gateway(
    credentials: Credentials, config: AccessGatewayConfig | None = None, options: ManagerOptions | None = None
) -> AccessGateway:
    """Build the process in a running loop, without serving; it needs no cluster until it runs."""
    chosen = config or AccessGatewayConfig()
    manager = Manager(credentials, options or _options(chosen))
    return AccessGateway(manager, watch_served_storages(manager, chosen.namespaces.instance))


async def _run(config: AccessGatewayConfig) -> None:
    """Serve until SIGTERM or SIGINT; streams in progress get the rest of the grace.

    Raises:
        StartError: the gateway cannot be served as configured.
        ListenError: an address cannot be listened on.
    """
    gateway = build_access_gateway(cluster_credentials(config.kubeconfig), config)
    gateway.serve(config)
    await gateway.manager.run()


def _options(config: AccessGatewayConfig) -> ManagerOptions:
    return ManagerOptions(
        _NAME, http=config.metrics_bind_address, grace=config.shutdown_grace, drain=config.drain_delay, signals=True
    )


COMMAND: Final = ProcessCommand(
    "access-gateway",
    "Serve the files of storages to callers with scope access, until SIGTERM or Ctrl-C. Replicas share nothing but the"
    "\ncluster.",
    AccessGatewayConfig,
    _run,
)
