"""The product in one manager: all reconcilers, and all that carries out requests, before anything of it runs."""

from typing import Final

from attrs import frozen

from gpuruntime.api.roles import INSTANCE_NAMESPACE, STOCK_NAMESPACE, SYSTEM_NAMESPACE, Roles
from gpuruntime.control.manager import Election, Manager, ManagerOptions
from gpuruntime.control.permissions.declarations import uses
from gpuruntime.control.permissions.rights import Right
from gpuruntime.desired.rendering import Rendering
from gpuruntime.kube.builtin.authentication import TokenReview
from gpuruntime.kube.credentials import Credentials
from gpuruntime.reconcilers.claims import ClaimOptions, install_claims
from gpuruntime.reconcilers.gpuunit import GPUUnitOptions, install_gpuunit
from gpuruntime.reconcilers.stockpool import StockPoolOptions, install_stockpool
from gpuruntime.service.homes import Homes
from gpuruntime.service.installation import Service, ServiceOptions, install_service
from gpuruntime.service.inventory import Inventory

__all__ = ["Places", "Product", "build_product"]

_NAME: Final = "gpuruntime"
_LEASE: Final = "gpuruntime-manager"


@frozen
class Places:
    """The namespaces in which the product works. It looks into no other, and needs no rights there.

    Args:
        instance: where active units may be; those that name no namespace are in the first one.
        stock: where reserved capacity is, in the same way.
        system: where Operations are, and the lease of the process that leads.
    """

    instance: tuple[str, ...] = (INSTANCE_NAMESPACE,)
    stock: tuple[str, ...] = (STOCK_NAMESPACE,)
    system: str = SYSTEM_NAMESPACE

    @property
    def units(self) -> tuple[str, ...]:
        """Where units are, of either role."""
        return tuple(sorted({*self.instance, *self.stock}))

    @property
    def roles(self) -> Roles:
        return Roles(self.stock)


@frozen
class Product:
    """A manager with everything installed, and what whoever takes requests needs of it."""

    manager: Manager
    service: Service
    inventory: Inventory
    places: Places

    @property
    def rights(self) -> tuple[Right, ...]:
        """The least rights with which all of it works."""
        return self.manager.rights


def build_product(credentials: Credentials, places: Places | None = None) -> Product:
    """Put the product together, in a running loop; no cluster need be there.

    Reconcilers run in the process that holds the lease, requests are carried out in every one.
    """
    chosen = places or Places()
    roles, units = chosen.roles, chosen.units
    election = Election(chosen.system, _LEASE)
    manager = Manager(credentials, ManagerOptions(_NAME, election=election, signals=True))
    install_gpuunit(manager, GPUUnitOptions(rendering=Rendering(roles=roles), namespaces=units))
    install_stockpool(manager, StockPoolOptions(roles, units))
    install_claims(manager, ClaimOptions(roles, units, chosen.system))
    homes = Homes(chosen.instance[0], chosen.stock[0])
    options = ServiceOptions(roles, chosen.system, units, identity=election.identity, homes=homes)
    service = install_service(manager, credentials, options)
    manager.declare(uses(TokenReview, "create", rare="used for callers with tokens of the cluster"))
    return Product(manager, service, Inventory.of(manager.cache, units, roles), chosen)
