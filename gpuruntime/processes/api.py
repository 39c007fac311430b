"""The API of a process: its routes over what the product can do, and who may call them."""

import ssl
from datetime import UTC, datetime
from typing import Final

from attrs import frozen

from gpuruntime.kube.client import Client
from gpuruntime.processes.options import ManagerSettings
from gpuruntime.processes.product import Product
from gpuruntime.service.machines_on_cluster import ClusterMachines
from gpuruntime.service.memory import MemoryMachines
from gpuruntime.web.app import cluster_routes, machine_routes, until_ready
from gpuruntime.web.authentication import Access, Gate, decide_access
from gpuruntime.web.authentication_kubernetes import TokenReviews
from gpuruntime.web.authentication_tokens import TokenFile
from gpuruntime.web.health import ClusterProbe, HealthPages, why_not_ready
from gpuruntime.web.identity import Authenticator, parse_grants
from gpuruntime.web.routing import Route
from gpuruntime.web.serving_certificate import server_tls

__all__ = ["Api", "api_of_memory", "api_of_product", "gate_of", "tls_of"]

_EVERYBODY: Final = parse_grants("group:system:authenticated=operator")


@frozen
class Api:
    """What is served, and the state that the reporter tells."""

    routes: tuple[Route, ...]
    health: HealthPages


def api_of_product(product: Product) -> Api:
    """The API over a cluster. While the caches have not seen it, only /health is served."""
    cache, service, places = product.manager.cache, product.service, product.places
    probe = ClusterProbe(product.manager.reach_server)
    health = HealthPages(product.inventory.take, probe.error, _now, _now())
    machines = ClusterMachines(
        service.operations, service.units, service.unit_reads, places.instance[0], places.stock[0]
    )
    routes = (*machine_routes(health, machines), *cluster_routes(service))
    return Api(until_ready(routes, why_not_ready(cache)), health)


def api_of_memory() -> Api:
    """The API without a cluster: health, stocks and VMs."""
    machines = MemoryMachines()

    async def kube_error() -> None:
        """There is nobody to ask."""

    health = HealthPages(machines.take, kube_error, _now, _now())
    return Api(machine_routes(health, machines), health)


def gate_of(settings: ManagerSettings, client: Client | None) -> Gate:
    """Who may come in; `client` is for asking the cluster about tokens.

    Raises:
        TokenFileError: the token file cannot be used.
        UnguardedAddressError: nobody would be asked who he is, where everybody can reach.
    """
    known: list[Authenticator] = []
    if settings.token_file is not None:
        known.append(TokenFile(settings.token_file))
    if settings.token_review and client is not None:
        known.append(TokenReviews(client, settings.grants))
    access = decide_access(
        settings.address, authenticated=bool(known), allow_unauthenticated=settings.allow_unauthenticated
    )
    if access is Access.DEVELOPMENT and client is not None:
        # Who shows no credentials may do everything; so may who shows some that the cluster knows.
        known.append(TokenReviews(client, _EVERYBODY))
    return Gate(access, *known)


def tls_of(settings: ManagerSettings) -> ssl.SSLContext | None:
    """What to serve HTTPS with; None for HTTP.

    Raises:
        CertificateError: the files cannot be used.
    """
    return None if settings.tls is None else server_tls(*settings.tls)


def _now() -> datetime:
    return datetime.now(UTC)
