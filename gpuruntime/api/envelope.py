"""The envelope of a unit, shared by the specs of units and pools: flavour, image, CPUs, memory, GPUs."""

from typing import Annotated, Final

from gpuruntime.meta import Cel, Length, Pattern, QuantityRule, Range

__all__ = [
    "CPU_BOUNDS",
    "GPU_PRODUCT",
    "GPU_TYPE_RULE",
    "MEMORY_BOUNDS",
    "Amount",
    "GpuCount",
    "GpuType",
    "Image",
    "SpecName",
]

GPU_PRODUCT: Final = "nvidia.com/gpu.product"
"""The node label with the product name of the node's GPUs."""

# Not validated by the CRD: a comparison of quantities exceeds the API server's CEL cost limit.
CPU_BOUNDS: Final = ("1m", "1000000")
"""Minimum and maximum of a unit's CPUs."""
MEMORY_BOUNDS: Final = ("1Mi", "1Pi")
"""Minimum and maximum of a unit's memory: no container starts with less, no machine has more."""

_LABEL_VALUE: Final = Pattern("^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$")

SpecName = Annotated[str, Length(minimum=1, maximum=63), _LABEL_VALUE]
Image = Annotated[str | None, Length(minimum=1, maximum=1024), Pattern("^[!-~]+$")]
Amount = Annotated[int | str | None, QuantityRule(positive=True)]
GpuCount = Annotated[int, Range(minimum=0, maximum=1024)]
GpuType = Annotated[str | None, Length(minimum=1, maximum=63), _LABEL_VALUE]

GPU_TYPE_RULE: Final = Cel(
    f"!has(self.gpuType) || !has(self.nodeSelector) || !('{GPU_PRODUCT}' in self.nodeSelector)"
    f" || self.nodeSelector['{GPU_PRODUCT}'] == self.gpuType",
    message=f"nodeSelector['{GPU_PRODUCT}'] must equal gpuType or be absent",
)
"""The rule of every spec that has both a gpuType and a nodeSelector."""
