"""All that carries out requests, put into a manager, whether it leads or not."""

from datetime import timedelta

from attrs import frozen

from gpuruntime.control import Manager, Permission, allow
from gpuruntime.kube import Credentials
from gpuruntime.kube.builtin.authentication import TokenReview
from gpuruntime.kube.builtin.core import Namespace
from gpuruntime.processes.places import Places
from gpuruntime.service.homes import Homes
from gpuruntime.service.operations.controller import DEFAULT_KEEP
from gpuruntime.service.reads.inventory import Inventory
from gpuruntime.service.reads.inventory_metrics import InventoryCollector
from gpuruntime.service.wiring import Service, ServiceOptions, install_service

__all__ = ["Desk", "install_desk"]


@frozen
class Desk:
    """A manager whose process takes requests, and what whoever answers them needs of it."""

    manager: Manager
    service: Service
    inventory: Inventory
    places: Places

    @property
    def permissions(self) -> tuple[Permission, ...]:
        """The least permissions with which all of it works."""
        return self.manager.permissions


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
        allow(TokenReview, "create", rare="used for callers with tokens of the cluster"),
        allow(Namespace, "get", names=places.all, rare="used before writes, to tell which namespace is gone"),
    )
    inventory = Inventory.of(manager.cache, places.units, places.roles)
    InventoryCollector(manager.observability.registry, inventory)
    return Desk(manager, service, inventory, places)
