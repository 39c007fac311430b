"""The order of resource versions: which of two observations of one resource is newer.

The rules are those of Kubernetes: a comparable version is a positive decimal integer without a leading zero, of any
length; longer is newer, and equal lengths compare as text. "0" and "" ask for "any" and "latest": they are no versions.
"""

import re
from typing import Final

__all__ = ["ResourceVersionError", "compare", "newer"]

_WELL_FORMED: Final = re.compile(r"[1-9][0-9]*")


class ResourceVersionError(ValueError):
    """A resource version has no place in the order."""


def compare(a: str, b: str) -> int:
    """-1, 0 or 1 as `a` is older than, the same as, or newer than `b`. Both must come from one resource.

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
    return compare(a, b) > 0
