"""What the container of a unit may not do."""

from typing import Any, Final

from gpuruntime.api.gpuunit import GPUUnitSpec
from gpuruntime.api.security_profile import RESTRICTED
from gpuruntime.meta import FrozenDict, freeze

__all__ = ["profile_of", "security_context"]

_BASELINE: Final[FrozenDict[str, Any]] = freeze(
    {
        "allowPrivilegeEscalation": False,
        "capabilities": {
            "drop": [
                *("AUDIT_CONTROL", "AUDIT_READ", "BLOCK_SUSPEND", "DAC_READ_SEARCH", "IPC_LOCK", "IPC_OWNER", "KILL"),
                *("MAC_ADMIN", "MAC_OVERRIDE", "MKNOD", "SETPCAP", "SYS_ADMIN", "SYS_MODULE", "SYS_RAWIO"),
                *("SYS_RESOURCE", "SYS_TIME", "WAKE_ALARM"),
            ]
        },
        "seccompProfile": {"type": "RuntimeDefault"},
    }
)
_RESTRICTED: Final[FrozenDict[str, Any]] = freeze(
    {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
)
# The user `nonroot` of images without a distribution, whom other images do not know.
_UNPRIVILEGED: Final = 65532
_AS_NOBODY: Final[FrozenDict[str, Any]] = _RESTRICTED | {"runAsUser": _UNPRIVILEGED, "runAsGroup": _UNPRIVILEGED}


def profile_of(spec: GPUUnitSpec, *, is_stock: bool) -> str:
    """The profile that the pod of a unit has: stock is restricted, whatever its spec says."""
    return RESTRICTED if is_stock else spec.security_profile


def security_context(spec: GPUUnitSpec, *, is_stock: bool) -> FrozenDict[str, Any]:
    """The security context of the container.

    Guarantees: stock, and a unit with profile Restricted, are admitted where Pod Security is `restricted`. A user's
    program runs as the user that its image names, also under Restricted; if that is root, the kubelet does not start
    it. What only holds capacity, and the operator's own image, run as a user without rights.
    """
    if profile_of(spec, is_stock=is_stock) != RESTRICTED:
        return _BASELINE
    return _AS_NOBODY if is_stock or spec.image is None else _RESTRICTED
