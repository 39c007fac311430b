"""The process of the API: any number of replicas, each of which carries out requests and none of which reconciles."""

import socket
import uuid
from datetime import timedelta
from typing import Final

from aiohttp import web
from attrs import frozen

from gpuruntime.control import OFFLINE_CREDENTIALS, Manager, ManagerOptions
from gpuruntime.kube import Credentials
from gpuruntime.processes.api import AccessSettings, Api, api_of_desk, api_of_memory, gate_of, tls_of
from gpuruntime.processes.cluster_access import KubeMode, late_credentials, require_cluster
from gpuruntime.processes.configuration.runtime_api import RuntimeApiConfig
from gpuruntime.processes.desk import Desk, install_desk
from gpuruntime.processes.status_reporter import StatusReporter
from gpuruntime.web.app import install
from gpuruntime.web.auth.access_control import AccessControl
from gpuruntime.web.auth.scopes import parse_grants

__all__ = ["build_runtime_api", "run_runtime_api"]

_NAME: Final = "gpuruntime-runtime-api"
# What the Operations that are under way, and all that comes after them, get of the grace.
_WORK_SECONDS: Final = 7.0
_LEAST_DRAIN_SECONDS: Final = 1.0


@frozen
class _Farewell:
    """Sends callers who keep their connections elsewhere while the process stops."""

    manager: Manager

    async def tell(self, _request: web.Request, response: web.StreamResponse) -> None:
        """For the signal `on_response_prepare`, which comes after the header was decided on."""
        if self.manager.is_stopping:
            response.force_close()
            response.headers["Connection"] = "close"


def build_runtime_api(credentials: Credentials, config: RuntimeApiConfig | None = None) -> Desk:
    """Put the process together, in a running loop, but for its API; no cluster need be there."""
    chosen = config or RuntimeApiConfig()
    identity = f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"
    keep = timedelta(seconds=chosen.keep_operations)
    manager = Manager(credentials, _options(chosen))
    return install_desk(manager, credentials, chosen.namespaces.places, identity=identity, keep=keep)


async def run_runtime_api(config: RuntimeApiConfig) -> None:
    """Serve until SIGTERM or SIGINT; requests being answered then are finished first.

    Raises:
        CredentialsError, NoClusterError: a cluster is required, and there is no way into one.
        CertificateError, TokenFileError, UnguardedAddressError: the API cannot be served as the config says.
        ListenError: an address cannot be listened on.
    """
    access = _access(config)
    if config.kube_mode is KubeMode.OFF:
        await _serve(Manager(OFFLINE_CREDENTIALS, _options(config)), api_of_memory(), gate_of(access, None), config)
        return
    credentials = late_credentials(config.kubeconfig)
    if config.kube_mode is KubeMode.REQUIRED:
        await require_cluster(credentials.look())
    desk = build_runtime_api(credentials, config)
    gate = gate_of(access, desk.service.units.client)
    await _serve(desk.manager, api_of_desk(desk), gate, config)


def _options(config: RuntimeApiConfig) -> ManagerOptions:
    return ManagerOptions(
        _NAME, http=config.operations_addr, grace=config.shutdown_grace, drain=config.drain_delay, signals=True
    )


def _access(config: RuntimeApiConfig) -> AccessSettings:
    auth = config.auth
    return AccessSettings(
        config.http_addr,
        token_file=auth.token_file,
        token_review=auth.token_review,
        grants=parse_grants(*auth.grants),
        allow_unauthenticated=auth.allow_unauthenticated,
        tls=config.tls.files,
        limits=config.connections.limits,
    )


async def _serve(manager: Manager, api: Api, gate: AccessControl, config: RuntimeApiConfig) -> None:
    app = web.Application()
    install(app, api.routes, gate, manager.observability.registry)
    drain = max(config.shutdown_grace - config.drain_delay - _WORK_SECONDS, _LEAST_DRAIN_SECONDS)
    access = _access(config)
    manager.serve(app, access.address, tls=tls_of(access), group="front", drain=drain, limits=access.limits)
    app.on_response_prepare.append(_Farewell(manager).tell)
    manager.add(api.keep_streams, "live streams", group="front")
    reporter = StatusReporter(api.health.health, config.report_interval)
    manager.add(reporter.run, "status reporter", group="always")
    await manager.run()
