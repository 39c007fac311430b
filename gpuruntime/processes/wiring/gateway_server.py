"""The access gateway in a manager: its cache of storages, its route, and the authentication of callers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aiohttp import web
from attrs import frozen
from prometheus_client import CollectorRegistry

from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.control import HttpAddress, HttpLimits, Informer, Manager, allow
from gpuruntime.endpoints.server.gates import not_ready_reason
from gpuruntime.endpoints.server.metrics import RequestMetrics, RequestMetricsCollector, instrument
from gpuruntime.gateway.proxy.app import StorageRoute, mount_gateway
from gpuruntime.gateway.proxy.forwarding import Forwarding
from gpuruntime.gateway.proxy.metrics import StreamCollector
from gpuruntime.gateway.proxy.storages import AccessorAddresses, ClusterAddresses, Storages
from gpuruntime.gateway.proxy.streams import StreamLimits, Streams
from gpuruntime.gateway.signing.keys import AccessKeyError, SigningKeyFile
from gpuruntime.kube.builtin.authentication import TokenReview
from gpuruntime.processes.config.api_sections import Auth, Tls
from gpuruntime.processes.errors import StartError
from gpuruntime.processes.wiring.authentication import guarded

__all__ = ["GatewayOptions", "serve_gateway", "watch_served_storages"]


@frozen
class GatewayOptions:
    """How a gateway is served.

    Args:
        streams_to: the registry that exports the metrics of streams; that of the manager if None.
    """

    address: HttpAddress
    auth: Auth
    tls: Tls
    limits: HttpLimits
    signing_key_file: Path | None
    streams: StreamLimits
    addresses: AccessorAddresses = ClusterAddresses()  # noqa: RUF009 - frozen
    streams_to: CollectorRegistry | None = None


def watch_served_storages(manager: Manager, namespaces: Sequence[str]) -> Informer[GPUStorage]:
    """The cache of the gateway, and all permissions that it needs."""
    manager.declare(allow(TokenReview, "create", rare="used for callers with tokens of the cluster"))
    return manager.cache.informer(GPUStorage, namespaces=namespaces)


def serve_gateway(
    manager: Manager, app: web.Application, storages: Informer[GPUStorage], options: GatewayOptions, **serving: Any
) -> None:
    """Serve the gateway in an application. Before the manager runs. `serving` are options of `Manager.serve`.

    Raises:
        StartError: the signing key, the token file or the certificate is invalid, or the address would be open to other
            machines.
    """
    if options.signing_key_file is None:
        raise StartError("signingKeyFile: expected a file that `gpuruntime access-key --file FILE` made, got none")
    try:
        key = SigningKeyFile(options.signing_key_file)
    except AccessKeyError as error:
        raise StartError(str(error)) from error
    access, tls = guarded(options.address, options.auth, options.tls, manager.client)
    streams = Streams(options.streams)
    registry = manager.observability.registry
    StreamCollector(registry if options.streams_to is None else options.streams_to, streams)
    metrics = RequestMetrics()
    RequestMetricsCollector(registry, metrics)
    instrument(app, metrics)
    route = StorageRoute(
        access,
        Storages(storages.store.get, not_ready_reason(manager.cache)),
        Forwarding(options.addresses, key, streams),
        lambda: manager.is_stopping,
    )
    mount_gateway(app, route)
    manager.serve(app, options.address, tls=tls, limits=options.limits, **serving)
