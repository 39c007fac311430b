"""All reconcilers of the product, put into a manager."""

from typing import Final

from gpuruntime.control import Manager
from gpuruntime.desired.rendering import Rendering
from gpuruntime.processes.places import Places
from gpuruntime.reconcilers.claims import ClaimOptions, install_claims
from gpuruntime.reconcilers.gpuunit import GPUUnitOptions, install_gpuunit
from gpuruntime.reconcilers.stockpool import StockPoolOptions, install_stockpool

__all__ = ["LEASE", "WORKERS", "install_reconcilers"]

WORKERS: Final = GPUUnitOptions().concurrency
"""How many units are reconciled at a time, unless somebody says otherwise."""
LEASE: Final = "gpuruntime-controller-manager"
"""The Lease of whoever reconciles. All processes that do stand for the same one: a second one would undo the first."""


def install_reconcilers(manager: Manager, places: Places, workers: int = WORKERS) -> None:
    """Have a manager reconcile everything, where it leads. Before it runs."""
    roles, units = places.roles, places.units
    rendering = Rendering(roles=roles)
    install_gpuunit(manager, GPUUnitOptions(rendering=rendering, namespaces=units, concurrency=workers))
    install_stockpool(manager, StockPoolOptions(roles, units))
    install_claims(manager, ClaimOptions(roles, units, places.system))
