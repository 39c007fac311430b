"""The envelope of a unit, shared by the specs of units and pools: flavour, image, CPUs, memory, GPUs."""

from typing import Annotated, Final

import orjson

from gpuruntime.meta import Cel, Check, Length, Pattern, QuantityRule, Range, Struct, known_fields

__all__ = [
    "GPU_PRODUCT",
    "GPU_TYPE_RULE",
    "SIZE_RULE",
    "SPEC_LIMIT",
    "Cpu",
    "GpuCount",
    "GpuType",
    "Image",
    "Memory",
    "SpecName",
]

SPEC_LIMIT: Final = 96 * 1024
"""Maximum size of a spec in bytes of JSON. Its pod template is stored in an annotation, and annotations are limited to
256 KiB per object."""

GPU_PRODUCT: Final = "nvidia.com/gpu.product"
"""The node label with the product name of the node's GPUs."""

_LABEL_VALUE: Final = Pattern(
    "^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
    description="letters, digits, '-', '_' and '.', with a letter or digit first and last",
)

SpecName = Annotated[str, Length(minimum=1, maximum=63), _LABEL_VALUE]
Image = Annotated[
    str | None, Length(minimum=1, maximum=1024), Pattern("^[!-~]+$", description="an image without spaces")
]
Cpu = Annotated[int | str | None, QuantityRule(positive=True, minimum="1m", maximum="1000000", example="500m or 4")]
# No container starts with less memory, and no machine has more.
Memory = Annotated[int | str | None, QuantityRule(positive=True, minimum="1Mi", maximum="1Pi", example="16Gi")]
GpuCount = Annotated[int, Range(minimum=0, maximum=1024)]
GpuType = Annotated[str | None, Length(minimum=1, maximum=63), _LABEL_VALUE]

GPU_TYPE_RULE: Final = Cel(
    f"!has(self.gpuType) || !has(self.nodeSelector) || !('{GPU_PRODUCT}' in self.nodeSelector)"
    f" || self.nodeSelector['{GPU_PRODUCT}'] == self.gpuType",
    message=f"nodeSelector['{GPU_PRODUCT}'] must equal gpuType or be absent",
    field_path=f".nodeSelector['{GPU_PRODUCT}']",
    check=lambda spec: spec.gpu_type is None or spec.node_selector.get(GPU_PRODUCT, spec.gpu_type) == spec.gpu_type,
    expected=lambda spec: f"{spec.gpu_type} as in gpuType, or none",
)
"""The rule of every spec that has both a gpuType and a nodeSelector."""


def _size(spec: Struct) -> int:
    return len(orjson.dumps(known_fields(spec)))


SIZE_RULE: Final = Check(
    lambda spec: _size(spec) <= SPEC_LIMIT,
    expected=lambda spec: (
        f"at most {SPEC_LIMIT} bytes of JSON, not {_size(spec)}; move long texts to a ConfigMap or the image"
    ),
)
"""The rule of every spec from which a pod template is rendered."""
