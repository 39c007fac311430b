"""`gpuruntime activator`: brings invocations to workers, in any number of replicas. One of them keeps the streams."""

from collections.abc import Iterator
from typing import Final

from attrs import frozen

from gpuruntime.api.invocations import ACTIVATOR_USER
from gpuruntime.bus import Bus, BusOptions
from gpuruntime.control import HttpAddress, Manager, ManagerOptions, Permission
from gpuruntime.kube import Credentials
from gpuruntime.processes.config.activator_sections import ActivatorElection, stream_replicas_key
from gpuruntime.processes.config.api_sections import Connections, Tls
from gpuruntime.processes.config.keys import Fault, key, section
from gpuruntime.processes.config.notations import ADDRESS
from gpuruntime.processes.config.sections import ProcessConfig, metrics_bind_address_key
from gpuruntime.processes.config.serverless_section import ServerlessSection
from gpuruntime.processes.errors import StartError
from gpuruntime.processes.process_command import ProcessCommand
from gpuruntime.processes.wiring.activator import ActivatorOptions, InstalledActivator, install_activator
from gpuruntime.processes.wiring.credentials import cluster_credentials
from gpuruntime.processes.wiring.nats import install_bus

__all__ = ["COMMAND", "ActivatorConfig", "ActivatorProcess", "build_activator"]

_NAME: Final = "gpuruntime-activator"


@frozen(kw_only=True)
class ActivatorConfig(ProcessConfig):
    """The config of `gpuruntime activator`."""

    http_addr: HttpAddress = key(
        ADDRESS, HttpAddress("127.0.0.1", 8094), "address for workers; :8094 is port 8094 of all interfaces"
    )
    metrics_bind_address: HttpAddress = metrics_bind_address_key(8087)
    leader_election: ActivatorElection = section(ActivatorElection, "All replicas dispatch; one keeps the streams.")
    stream_replicas: int = stream_replicas_key()
    serverless: ServerlessSection = section(ServerlessSection)
    tls: Tls = section(Tls, "Workers need a token of their pod, so serve HTTPS where they reach it over a network.")
    connections: Connections = section(
        Connections, "Each worker has one connection. Where all are in use, a new one gets 503."
    )

    def faults(self) -> Iterator[Fault]:
        if self.http_addr == self.metrics_bind_address and self.http_addr.port:
            yield Fault("metricsBindAddress", "expected another address than httpAddr, got the same")


@frozen
class ActivatorProcess:
    """A manager with the activator."""

    manager: Manager
    installed: InstalledActivator

    @property
    def permissions(self) -> tuple[Permission, ...]:
        """The permissions that the process needs."""
        return self.manager.permissions

    def serve(self, config: ActivatorConfig) -> None:
        """Serve workers when the manager runs.

        Raises:
            StartError: it cannot be served as configured.
        """
        if not config.serverless.nats.urls:
            raise StartError("serverless.nats.urls: expected the URL of a NATS server, got none")
        self.installed.serve(config.http_addr, config.tls, config.connections.limits)


def build_activator(credentials: Credentials, config: ActivatorConfig | None = None) -> ActivatorProcess:
    """Build the process in a running loop, without serving; it needs neither a cluster nor NATS until it runs.

    Raises:
        StartError: NATS is configured, and its client library is not installed.
    """
    chosen = config or ActivatorConfig()
    manager = Manager(credentials, _options(chosen))
    # Without a URL it is built for its permissions only.
    bus = install_bus(manager, chosen.serverless.nats, ACTIVATOR_USER) or Bus(BusOptions((), _NAME))
    options = ActivatorOptions(namespaces=chosen.namespaces, replicas=chosen.stream_replicas)
    return ActivatorProcess(manager, install_activator(manager, credentials, bus, options))


async def _run(config: ActivatorConfig) -> None:
    """Dispatch until SIGTERM or SIGINT; then workers move to another activator with what they run.

    Raises:
        StartError: it cannot be served as configured.
        ListenError: an address cannot be listened on.
    """
    process = build_activator(cluster_credentials(config.kubeconfig), config)
    process.serve(config)
    await process.manager.run()


def _options(config: ActivatorConfig) -> ManagerOptions:
    return ManagerOptions(
        _NAME,
        http=config.metrics_bind_address,
        election=config.leader_election.election(config.namespaces),
        grace=config.shutdown_grace,
        signals=True,
    )


COMMAND: Final = ProcessCommand(
    "activator",
    "Bring queued invocations to the workers of functions, until SIGTERM or Ctrl-C. All replicas dispatch; one of them"
    "\nkeeps the streams of NATS.",
    ActivatorConfig,
    _run,
)
