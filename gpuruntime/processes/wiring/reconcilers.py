"""The reconcilers of the product, installed in a manager."""

from typing import Final, Protocol

from attrs import evolve

from gpuruntime.api.namespaces import Namespaces
from gpuruntime.control import Manager
from gpuruntime.desired.rendering import Rendering
from gpuruntime.processes.config.accessor_section import Accessor
from gpuruntime.processes.config.sections import StorageSection
from gpuruntime.processes.config.sidecar_keys import SidecarKeys
from gpuruntime.reconcilers.claims import ClaimOptions, install_claims
from gpuruntime.reconcilers.gpufunction.reconciler import GPUFunctionOptions, install_gpufunction
from gpuruntime.reconcilers.gpustorage.reconciler import GPUStorageOptions, install_gpustorage
from gpuruntime.reconcilers.gpuunit.reconciler import GPUUnitOptions, install_gpuunit
from gpuruntime.reconcilers.stockpool.reconciler import StockPoolOptions, install_stockpool
from gpuruntime.reconcilers.storage_locks import StorageLockOptions, install_storage_locks
from gpuruntime.reconcilers.unit_turns import UnitTurns

__all__ = ["MIN_READY_SECONDS", "WORKERS", "ReconcilerConfig", "install_reconcilers"]

MIN_READY_SECONDS: Final = Rendering().min_ready_seconds
"""The default `minReadySeconds` of units without a readiness probe."""
WORKERS: Final = GPUUnitOptions().concurrency
"""The default number of concurrent reconciles of GPUUnits."""


class ReconcilerConfig(Protocol):
    """What the config of a process says about its reconcilers."""

    @property
    def namespaces(self) -> Namespaces: ...
    @property
    def workers(self) -> int: ...
    @property
    def min_ready_seconds(self) -> int: ...
    @property
    def storage(self) -> StorageSection: ...
    @property
    def accessor(self) -> Accessor: ...
    @property
    def serverless(self) -> SidecarKeys: ...


def install_reconcilers(manager: Manager, config: ReconcilerConfig) -> None:
    """Have a manager reconcile everything while it leads. Before it runs.

    Raises:
        StartError: a file of the config cannot be used.
    """
    namespaces, volumes, accessor = config.namespaces, config.storage.rendering, config.accessor.rendering
    sidecar = config.serverless.sidecar()
    rendering = Rendering(namespaces=namespaces, min_ready_seconds=config.min_ready_seconds, sidecar=sidecar)
    # A volume may be bound to the nodes on which its preparation ran.
    accessors = None if accessor is None else evolve(accessor, tolerations=volumes.tolerations)
    turns = UnitTurns()
    install_gpuunit(manager, GPUUnitOptions(rendering, concurrency=config.workers, turns=turns))
    install_stockpool(manager, StockPoolOptions(namespaces))
    install_gpufunction(manager, GPUFunctionOptions(namespaces, sidecar))
    install_claims(manager, ClaimOptions(namespaces))
    install_gpustorage(manager, GPUStorageOptions(namespaces, volumes, accessors))
    install_storage_locks(manager, StorageLockOptions(namespaces, turns=turns))
