"""All that carries out requests, put into a manager, whether it leads or not."""

from datetime import timedelta

from attrs import frozen

from gpuruntime.control.manager import Manager
from gpuruntime.control.permissions.declarations import uses
from gpuruntime.control.permissions.rights import Right
from gpuruntime.kube.builtin.authentication import TokenReview
from gpuruntime.kube.builtin.core import Namespace
from gpuruntime.kube.credentials import Credentials
from gpuruntime.processes.places import Places
from gpuruntime.service.homes import Homes
from gpuruntime.service.installation import Service, ServiceOptions, install_service
from gpuruntime.service.inventory import Inventory
from gpuruntime.service.inventory_metrics import InventoryCollector
from gpuruntime.service.operation_upkeep import DEFAULT_KEEP

__all__ = ["Desk", "install_desk"]


@frozen
class Desk:
    """A manager whose process takes requests, and what whoever answers them needs of it."""

    manager: Manager
    service: Service
    inventory: Inventory
    places: Places

    @property
    def rights(self) -> tuple[Right, ...]:
        """The least rights with which all of it works."""
        return self.manager.rights


def install_desk(
    manager: Manager, credentials: Credentials, places: Places, *, identity: str, keep: timedelta = DEFAULT_KEEP
) -> Desk:
    """Have a manager's process carry out requests. Before it runs.

    `identity` is the process's own name among those that work on Operations; `keep` is how long an ended one is kept.
    """
    homes = Homes(places.instance[0], places.stock[0])
    options = ServiceOptions(places.roles, places.system, places.units, keep, identity=identity, homes=homes)
    service = install_service(manager, credentials, options)
    manager.declare(
        uses(TokenReview, "create", rare="used for callers with tokens of the cluster"),
        uses(Namespace, "get", names=places.all, rare="used before writes, to tell which namespace is gone"),
    )
    inventory = Inventory.of(manager.cache, places.units, places.roles)
    InventoryCollector(manager.operations.registry, inventory)
    return Desk(manager, service, inventory, places)
