"""How the units of tests are rendered."""

from typing import Final

from gpuruntime.desired.rendering import Rendering, SidecarRendering

__all__ = ["ACTIVATOR_URL", "WITH_SIDECAR"]

ACTIVATOR_URL: Final = "wss://gpuruntime-activator.gpuruntime-system.svc:8443"
WITH_SIDECAR: Final = Rendering(sidecar=SidecarRendering("example.com/gpuruntime:1", ACTIVATOR_URL, "PEM"))
"""With the settings of sidecars, so that workers of functions can be rendered."""
