"""The security context of a unit's container."""

from typing import Any, Final

from gpuruntime.api.gpuunit import GPUUnitSpec
from gpuruntime.api.security_profile import RESTRICTED
from gpuruntime.meta import FrozenDict, freeze

__all__ = ["BASELINE", "profile_of", "security_context"]

BASELINE: Final[FrozenDict[str, Any]] = freeze(
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
"""The security context of programs of users."""
_RESTRICTED: Final[FrozenDict[str, Any]] = freeze(
    {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
)
# The user `nonroot` of distroless images; in other images the UID is unused.
_UNPRIVILEGED: Final = 65532
_UNPRIVILEGED_USER: Final[FrozenDict[str, Any]] = _RESTRICTED | {
    "runAsUser": _UNPRIVILEGED,
    "runAsGroup": _UNPRIVILEGED,
}


def profile_of(spec: GPUUnitSpec, *, is_stock: bool) -> str:
    """The effective profile of a unit's pod: stock is always Restricted."""
    return RESTRICTED if is_stock else spec.security_profile


def security_context(spec: GPUUnitSpec, *, is_stock: bool) -> FrozenDict[str, Any]:
    """The security context of the container.

    Guarantees: stock units, and units with profile Restricted, satisfy the Pod Security Standard `restricted`. A user's
    image runs as its own user, also under Restricted; if that is root, the kubelet refuses to start it. Stock units and
    the operator's default image run as an unprivileged user.
    """
    if profile_of(spec, is_stock=is_stock) != RESTRICTED:
        return BASELINE
    return _UNPRIVILEGED_USER if is_stock or spec.image is None else _RESTRICTED
