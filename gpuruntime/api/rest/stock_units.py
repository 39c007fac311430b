"""Body of /operator/stock-units. Its views are those of units."""

from typing import Annotated, Final

from attrs import frozen

from gpuruntime.api.envelope import Amount, GpuType, SpecName
from gpuruntime.api.rest.objects import Namespace
from gpuruntime.meta import Range, Struct

__all__ = ["LARGEST_BATCH", "SeedStockBody"]

LARGEST_BATCH: Final = 999
"""Maximum number of stock units of one seed request."""


@frozen
class SeedStockBody(Struct):
    """A batch of stock units: how many, and what each of them reserves. Stock units run no user image."""

    spec_name: SpecName
    """Name of the flavour, such as g1.1: what claims ask for."""
    replicas: Annotated[int, Range(minimum=1, maximum=LARGEST_BATCH)]
    """Number of units to create."""
    cpu: Amount = None
    """CPUs of each unit, such as 4 or 500m."""
    memory: Amount = None
    """Memory of each unit, such as 16Gi."""
    gpu: Annotated[int, Range(minimum=0, maximum=1024)] = 0
    """GPUs of each unit."""
    gpu_type: GpuType = None
    """Model of the GPUs: the value of label nvidia.com/gpu.product that a node must have."""
    namespace: Namespace | None = None
    """The stock namespace to create them in. Defaults to the first stock namespace."""
