"""Security profiles of units, named after the Pod Security Standards."""

from typing import Annotated, Final

from gpuruntime.meta import Length, Pattern

__all__ = ["BASELINE", "RESTRICTED", "SecurityProfile"]

BASELINE: Final = "Baseline"
"""The container runs as the user of its image, which may be root."""
RESTRICTED: Final = "Restricted"
"""The pod satisfies the Pod Security Standard `restricted`: never root, no capabilities."""

SecurityProfile = Annotated[str, Pattern("^(Baseline|Restricted)$"), Length(maximum=10)]
