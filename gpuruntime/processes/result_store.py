"""`gpuruntime result-store`: archives ended invocations in a database, and serves them to the API. One replica."""

from collections.abc import Iterator
from typing import Final

from aiohttp import web
from attrs import frozen

from gpuruntime.api.invocations import ARCHIVE_AUDIENCE, RESULT_STORE_USER
from gpuruntime.archive.routes import ArchiveRoutes, mount_archive
from gpuruntime.control import HttpAddress, Manager, ManagerOptions, Permission, allow
from gpuruntime.endpoints.server.metrics import RequestMetrics, RequestMetricsCollector, instrument
from gpuruntime.kube import Credentials
from gpuruntime.kube.builtin.authentication import TokenReview
from gpuruntime.processes.config.api_sections import Auth, Connections, Tls
from gpuruntime.processes.config.database_section import DatabaseSection
from gpuruntime.processes.config.keys import Fault, key, section
from gpuruntime.processes.config.notations import ADDRESS, BOOLEAN
from gpuruntime.processes.config.sections import ProcessConfig, metrics_bind_address_key
from gpuruntime.processes.config.serverless_section import ServerlessSection
from gpuruntime.processes.errors import StartError
from gpuruntime.processes.process_command import ProcessCommand
from gpuruntime.processes.wiring.archive import install_archive
from gpuruntime.processes.wiring.authentication import guarded
from gpuruntime.processes.wiring.credentials import cluster_credentials
from gpuruntime.processes.wiring.draining import CloseConnections
from gpuruntime.processes.wiring.nats import install_bus

__all__ = ["COMMAND", "ResultStore", "ResultStoreConfig", "build_result_store"]

_NAME: Final = "gpuruntime-result-store"


@frozen
class StoreAuth(Auth):
    """Authentication of callers: the API. A token for the API itself is refused, because its audience is another."""

    token_review: bool = key(
        BOOLEAN, False, f"accept tokens of the cluster with the audience {ARCHIVE_AUDIENCE} (TokenReview)"
    )


@frozen(kw_only=True)
class ResultStoreConfig(ProcessConfig):
    """The config of `gpuruntime result-store`."""

    http_addr: HttpAddress = key(
        ADDRESS, HttpAddress("127.0.0.1", 8093), "address for the API; :8093 is port 8093 of all interfaces"
    )
    metrics_bind_address: HttpAddress = metrics_bind_address_key(8086)
    database: DatabaseSection = section(DatabaseSection)
    serverless: ServerlessSection = section(ServerlessSection)
    tls: Tls = section(Tls)
    auth: StoreAuth = section(
        StoreAuth, "Without tokens, callers on this machine need no credentials, and all other callers are refused."
    )
    connections: Connections = section(
        Connections,
        "A new connection replaces one that waits for a request; where all serve requests, the new one gets 503.",
    )

    def faults(self) -> Iterator[Fault]:
        if self.http_addr == self.metrics_bind_address and self.http_addr.port:
            yield Fault("metricsBindAddress", "expected another address than httpAddr, got the same")


@frozen
class ResultStore:
    """A manager with the archive."""

    manager: Manager

    @property
    def permissions(self) -> tuple[Permission, ...]:
        """The permissions that the process needs."""
        return self.manager.permissions

    def serve(self, config: ResultStoreConfig) -> None:
        """Archive and serve when the manager runs.

        Raises:
            StartError: it cannot be served as configured.
        """
        bus = install_bus(self.manager, config.serverless.nats, RESULT_STORE_USER)
        if bus is None:
            raise StartError("serverless.nats.urls: expected the URL of a NATS server, got none")
        archive = install_archive(self.manager, bus, config.database)
        if archive is None:
            raise StartError("database.file: expected the path of a database, which is made if it is missing, got none")
        access, tls = guarded(config.http_addr, config.auth, config.tls, self.manager.client, ARCHIVE_AUDIENCE)
        app, metrics = web.Application(), RequestMetrics()
        app.on_response_prepare.append(CloseConnections(self.manager).on_response_prepare)
        RequestMetricsCollector(self.manager.observability.registry, metrics)
        instrument(app, metrics)
        mount_archive(app, ArchiveRoutes(archive, access))
        self.manager.serve(app, config.http_addr, tls=tls, limits=config.connections.limits, group="serving")


def build_result_store(credentials: Credentials, config: ResultStoreConfig | None = None) -> ResultStore:
    """Build the process in a running loop, without serving; it needs no cluster until it runs."""
    manager = Manager(credentials, _options(config or ResultStoreConfig()))
    manager.declare(allow(TokenReview, "create", rare="used for callers with tokens of the cluster"))
    return ResultStore(manager)


async def _run(config: ResultStoreConfig) -> None:
    """Archive and serve until SIGTERM or SIGINT; a batch in progress is finished.

    Raises:
        StartError: it cannot be served as configured.
        ListenError: an address cannot be listened on.
    """
    store = build_result_store(cluster_credentials(config.kubeconfig), config)
    store.serve(config)
    await store.manager.run()


def _options(config: ResultStoreConfig) -> ManagerOptions:
    return ManagerOptions(_NAME, http=config.metrics_bind_address, grace=config.shutdown_grace, signals=True)


COMMAND: Final = ProcessCommand(
    "result-store",
    "Archive ended invocations in a database, and serve them to the API, until SIGTERM or Ctrl-C. One process per"
    "\ndatabase.",
    ResultStoreConfig,
    _run,
)
