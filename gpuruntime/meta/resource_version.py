"""Comparison of resource versions of one resource.

The rules are those of Kubernetes: a comparable version is a positive decimal integer of any length without a leading
zero. "0" and "" mean "any" and "latest" in requests, and are not comparable.
"""

import re
from typing import Final

__all__ = ["ResourceVersionError", "compare_versions", "newer"]

_WELL_FORMED: Final = re.compile(r"[1-9][0-9]*")


class ResourceVersionError(ValueError):
    """A resource version is not comparable."""


def compare_versions(a: str, b: str) -> int:
    """-1, 0 or 1 if `a` is older than, equal to, or newer than `b`. Both must belong to the same resource.

    Raises:
        ResourceVersionError: one of them is not comparable.
    """
    for version in (a, b):
        if _WELL_FORMED.fullmatch(version) is None:
            raise ResourceVersionError(
                f"expected a resource version (a positive integer without leading zero), got {version!r}"
            )
    left, right = (len(a), a), (len(b), b)
    return (left > right) - (left < right)


def newer(a: str, b: str) -> bool:
    """Whether `a` is strictly newer than `b`.

    Raises:
        ResourceVersionError: one of them is not comparable.
    """
    return compare_versions(a, b) > 0
