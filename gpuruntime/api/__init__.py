"""Resource types of the control plane: shape, defaults, validation, conditions. Pure values."""

from gpuruntime.api.gpufunction import (
    FunctionBackoff,
    FunctionInvocation,
    FunctionScaling,
    FunctionWorkers,
    GPUFunction,
    GPUFunctionSpec,
    GPUFunctionStatus,
)
from gpuruntime.api.gpustorage import GPUStorage, GPUStorageSpec, GPUStorageStatus, StorageAccessor, StoragePrepare
from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec, GPUUnitStatus, UnitAccess, UnitStages
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.api.operation import (
    Operation,
    OperationFailure,
    OperationProgress,
    OperationResult,
    OperationSpec,
    OperationStatus,
    operation_name,
)
from gpuruntime.api.placement import PullSecret, UnitToleration
from gpuruntime.api.readiness import ReadinessProbe
from gpuruntime.api.serverless import Framework, UnitServerless, UnitServerlessStatus
from gpuruntime.api.stockpool import StockPool, StockPoolSpec, StockPoolStatus
from gpuruntime.api.storage_mount import StorageMount
from gpuruntime.api.unit_template import EnvSource, KeyReference, UnitEnv, UnitPort, UnitTemplate

__all__ = [
    "EnvSource",
    "Framework",
    "FunctionBackoff",
    "FunctionInvocation",
    "FunctionScaling",
    "FunctionWorkers",
    "GPUFunction",
    "GPUFunctionSpec",
    "GPUFunctionStatus",
    "GPUStorage",
    "GPUStorageSpec",
    "GPUStorageStatus",
    "GPUUnit",
    "GPUUnitSpec",
    "GPUUnitStatus",
    "KeyReference",
    "Namespaces",
    "Operation",
    "OperationFailure",
    "OperationProgress",
    "OperationResult",
    "OperationSpec",
    "OperationStatus",
    "PullSecret",
    "ReadinessProbe",
    "StockPool",
    "StockPoolSpec",
    "StockPoolStatus",
    "StorageAccessor",
    "StorageMount",
    "StoragePrepare",
    "UnitAccess",
    "UnitEnv",
    "UnitPort",
    "UnitServerless",
    "UnitServerlessStatus",
    "UnitStages",
    "UnitTemplate",
    "UnitToleration",
    "operation_name",
]
