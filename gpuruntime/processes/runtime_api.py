"""`gpuruntime runtime-api`: the API, in any number of replicas. Each executes requests, and none reconciles."""

from collections.abc import Iterator
from typing import Final

from aiohttp import web
from attrs import frozen

from gpuruntime.api.invocations import API_USER
from gpuruntime.control import HttpAddress, Manager, ManagerOptions
from gpuruntime.kube import Credentials
from gpuruntime.processes.config.api_sections import ApiConfig
from gpuruntime.processes.config.keys import Fault, key, section
from gpuruntime.processes.config.notations import DURATION, show_seconds
from gpuruntime.processes.config.result_store_section import ResultStoreSection
from gpuruntime.processes.config.sections import metrics_bind_address_key
from gpuruntime.processes.config.serverless_section import ServerlessSection
from gpuruntime.processes.process_command import ProcessCommand
from gpuruntime.processes.wiring.api_server import ApiServer, connect, install_api, serve_api
from gpuruntime.processes.wiring.draining import CloseConnections
from gpuruntime.processes.wiring.invocations import install_archive_client
from gpuruntime.processes.wiring.nats import install_bus

__all__ = ["COMMAND", "RuntimeApiConfig", "build_runtime_api"]

_NAME: Final = "gpuruntime-runtime-api"
# The share of the grace for Operations in progress, and for all that stops after them.
_WORK_SECONDS: Final = 7.0
_LEAST_DRAIN_SECONDS: Final = 1.0


@frozen(kw_only=True)
class RuntimeApiConfig(ApiConfig):
    """The config of `gpuruntime runtime-api`."""

    metrics_bind_address: HttpAddress = metrics_bind_address_key(8082)
    serverless: ServerlessSection = section(ServerlessSection)
    result_store: ResultStoreSection = section(
        ResultStoreSection, "Without a URL, ended invocations are not listed. Files are read again for each request."
    )
    drain_delay: float = key(
        DURATION, 0.0, "time to serve on after readiness is withdrawn, until load balancers have noticed"
    )

    def faults(self) -> Iterator[Fault]:
        yield from ApiConfig.faults(self)
        if self.drain_delay >= self.shutdown_grace:
            grace, delay = show_seconds(self.shutdown_grace), show_seconds(self.drain_delay)
            yield Fault("drainDelay", f"expected less than shutdownGrace ({grace}), got {delay}")
        if self.http_addr == self.metrics_bind_address and self.http_addr.port:
            yield Fault("metricsBindAddress", "expected another address than httpAddr, got the same")


def build_runtime_api(credentials: Credentials, config: RuntimeApiConfig | None = None) -> ApiServer:
    """Build the process in a running loop, without serving; it needs no cluster until it runs."""
    chosen = config or RuntimeApiConfig()
    manager = Manager(credentials, _options(chosen))
    bus = install_bus(manager, chosen.serverless.nats, API_USER)
    return install_api(manager, credentials, chosen, bus, install_archive_client(manager, chosen.result_store))


async def _run(config: RuntimeApiConfig) -> None:
    """Serve until SIGTERM or SIGINT; requests in progress are finished.

    Raises:
        StartError: a required cluster does not answer, or the API cannot be served as configured.
        ListenError: an address cannot be listened on.
    """
    manager, api = await connect(config, _options(config), build_runtime_api)
    app = web.Application()
    app.on_response_prepare.append(CloseConnections(manager).on_response_prepare)
    drain = max(config.shutdown_grace - config.drain_delay - _WORK_SECONDS, _LEAST_DRAIN_SECONDS)
    serve_api(manager, app, api, config, group="serving", drain=drain)
    manager.add(api.keep_streams, "live streams", group="serving")
    await manager.run()


def _options(config: RuntimeApiConfig) -> ManagerOptions:
    return ManagerOptions(
        _NAME, http=config.metrics_bind_address, grace=config.shutdown_grace, drain=config.drain_delay, signals=True
    )


COMMAND: Final = ProcessCommand(
    "runtime-api",
    "Serve the API until SIGTERM or Ctrl-C. Replicas share nothing but the cluster; /swagger/index.html documents the"
    "\nroutes.",
    RuntimeApiConfig,
    _run,
)
