"""The reconcilers of the product, installed in a manager."""

from typing import Final

from attrs import evolve

from gpuruntime.api.namespaces import Namespaces
from gpuruntime.control import Manager
from gpuruntime.desired.rendering import Rendering
from gpuruntime.desired.storage.accessor import AccessorRendering
from gpuruntime.desired.storage.rendering import StorageRendering
from gpuruntime.reconcilers.claims import ClaimOptions, install_claims
from gpuruntime.reconcilers.gpustorage.reconciler import GPUStorageOptions, install_gpustorage
from gpuruntime.reconcilers.gpuunit.reconciler import GPUUnitOptions, install_gpuunit
from gpuruntime.reconcilers.stockpool.reconciler import StockPoolOptions, install_stockpool
from gpuruntime.reconcilers.storage_locks import StorageLockOptions, install_storage_locks
from gpuruntime.reconcilers.unit_turns import UnitTurns

__all__ = ["MIN_READY_SECONDS", "WORKERS", "install_reconcilers"]

MIN_READY_SECONDS: Final = Rendering().min_ready_seconds
"""The default `minReadySeconds` of units without a readiness probe."""
WORKERS: Final = GPUUnitOptions().concurrency
"""The default number of concurrent reconciles of GPUUnits."""


def install_reconcilers(
    manager: Manager,
    namespaces: Namespaces,
    workers: int = WORKERS,
    min_ready_seconds: int = MIN_READY_SECONDS,
    storage: StorageRendering | None = None,
    accessor: AccessorRendering | None = None,
) -> None:
    """Have a manager reconcile everything while it leads. Before it runs."""
    rendering = Rendering(namespaces=namespaces, min_ready_seconds=min_ready_seconds)
    volumes = storage or StorageRendering()
    # A volume may be bound to the nodes on which its preparation ran.
    accessors = None if accessor is None else evolve(accessor, tolerations=volumes.tolerations)
    turns = UnitTurns()
    install_gpuunit(manager, GPUUnitOptions(rendering, concurrency=workers, turns=turns))
    install_stockpool(manager, StockPoolOptions(namespaces))
    install_claims(manager, ClaimOptions(namespaces))
    install_gpustorage(manager, GPUStorageOptions(namespaces, volumes, accessors))
    install_storage_locks(manager, StorageLockOptions(namespaces, turns=turns))
