"""The API of a process: its routes over what the product can do, and who may call them."""

import asyncio
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from attrs import field, frozen

from gpuruntime.control import HttpAddress, HttpLimits
from gpuruntime.kube import Client
from gpuruntime.processes.desk import Desk
from gpuruntime.service.compat.cluster import ClusterMachines
from gpuruntime.service.compat.memory import MemoryMachines
from gpuruntime.service.objects.namespace_checks import NamespaceChecks
from gpuruntime.web.app import cluster_routes, machine_routes, until_ready
from gpuruntime.web.auth.access_control import Access, AccessControl, decide_access
from gpuruntime.web.auth.certificate import server_tls
from gpuruntime.web.auth.scopes import Authenticator, Grants, parse_grants
from gpuruntime.web.auth.token_file import TokenFile
from gpuruntime.web.auth.token_review import TokenReviews
from gpuruntime.web.resources.health import ClusterProbe, HealthPages, why_not_ready
from gpuruntime.web.server.namespace_guard import where_namespaces_are
from gpuruntime.web.server.route import Route

__all__ = ["AccessSettings", "Api", "api_of_desk", "api_of_memory", "gate_of", "tls_of"]

_EVERYBODY: Final = parse_grants("group:system:authenticated=operator")


@frozen
class AccessSettings:
    """Where the API listens, and who may call it."""

    address: HttpAddress
    token_file: Path | None = None
    token_review: bool = False
    grants: Grants = field(factory=Grants)
    allow_unauthenticated: bool = False
    tls: tuple[Path, Path] | None = None
    limits: HttpLimits = field(factory=HttpLimits)


@frozen
class Api:
    """What is served, the state that the reporter tells, and what ends the streams that are followed."""

    routes: tuple[Route, ...]
    health: HealthPages
    close_streams: Callable[[], None] = lambda: None

    async def keep_streams(self) -> None:
        """Let streams go on until cancelled: whoever follows a process that stops is told so, and goes elsewhere."""
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.close_streams()


def api_of_desk(desk: Desk) -> Api:
    """The API over a cluster. While the caches have not seen it, only /health is served."""
    cache, service, places = desk.manager.cache, desk.service, desk.places
    probe = ClusterProbe(desk.manager.reach_server)
    health = HealthPages(desk.inventory.take, probe.error, _now, _now())
    machines = ClusterMachines(
        service.operations, service.units, service.unit_reads, places.instance[0], places.stock[0]
    )
    routes = (*machine_routes(health, machines), *cluster_routes(service))
    checks = NamespaceChecks(service.units.client, places.all)
    guarded = where_namespaces_are(until_ready(routes, why_not_ready(cache)), checks)
    return Api(guarded, health, service.log.close)


def api_of_memory() -> Api:
    """The API without a cluster: health, stocks and VMs."""
    machines = MemoryMachines()

    async def kube_error() -> None:
        """There is nobody to ask."""

    health = HealthPages(machines.take, kube_error, _now, _now())
    return Api(machine_routes(health, machines), health)


def gate_of(settings: AccessSettings, client: Client | None) -> AccessControl:
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
    return AccessControl(access, *known)


def tls_of(settings: AccessSettings) -> ssl.SSLContext | None:
    """What to serve HTTPS with; None for HTTP.

    Raises:
        CertificateError: the files cannot be used.
    """
    return None if settings.tls is None else server_tls(*settings.tls)


def _now() -> datetime:
    return datetime.now(UTC)
