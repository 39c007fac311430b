"""What the pod of a unit may do, in the words of the Pod Security Standards."""

from typing import Annotated, Final

from gpuruntime.meta import Length, Pattern

__all__ = ["BASELINE", "RESTRICTED", "SECURITY_PROFILES", "SecurityProfile"]

BASELINE: Final = "Baseline"
"""The image runs as the user that it names, root included."""
RESTRICTED: Final = "Restricted"
"""The pod is admitted where Pod Security is `restricted`: never root, no capability."""
SECURITY_PROFILES: Final = (BASELINE, RESTRICTED)

SecurityProfile = Annotated[str, Pattern("^(Baseline|Restricted)$"), Length(maximum=10)]
