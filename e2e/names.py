"""The public names of the product: namespaces, labels, processes."""

from typing import Final

__all__ = [
    "CLAIM_ID",
    "CONTROLLERS",
    "GPUS",
    "GROUP",
    "INSTANCES",
    "LEASE",
    "OPERATION_ID",
    "RUNTIME_APIS",
    "SOURCE_STOCK_UID",
    "STOCK",
    "SYSTEM",
    "UNIT_LABEL",
    "VERSION",
]

GROUP: Final = "runtime.lokiwager.io"
VERSION: Final = "v1alpha1"
INSTANCES: Final = "runtime-instance"
STOCK: Final = "runtime-stock"
SYSTEM: Final = "gpuruntime-system"

CONTROLLERS: Final = "controller-manager"
RUNTIME_APIS: Final = "runtime-api"
LEASE: Final = "gpuruntime-controller-manager"

GPUS: Final = "nvidia.com/gpu"
UNIT_LABEL: Final = f"{GROUP}/unit"
OPERATION_ID: Final = f"{GROUP}/operation-id"
SOURCE_STOCK_UID: Final = f"{GROUP}/source-stock-uid"
CLAIM_ID: Final = f"{GROUP}/stock-claim-id"
