"""How the children of a unit are called, and the labels by which they are found."""

from hashlib import sha256
from typing import Final

from gpuruntime.api.names import APP_LABEL, APP_NAME, MANAGED_BY, MANAGED_BY_LABEL, UNIT_LABEL, label_value
from gpuruntime.meta import FrozenDict
from gpuruntime.meta.names import LABEL_LIMIT

__all__ = ["CHILD_PREFIX", "child_name", "unit_labels", "unit_selector"]

CHILD_PREFIX: Final = "unit-"
# No unit's name begins with a dash, so what is made of a long name is never made of a short one.
_LONG_PREFIX: Final = "unit--"
_DIGEST_LENGTH: Final = 10
_KEPT: Final = LABEL_LIMIT - len(_LONG_PREFIX) - _DIGEST_LENGTH - 1


def child_name(unit_name: str) -> str:
    """The name of the Deployment and of the Service of a unit: "unit-<name>" wherever that is a legal Service name.

    Guarantees: a DNS label of at most 63 characters for every legal unit name; two units never share a name, but for
    collisions of 40 bits of SHA-256 between names that are long or have dots.
    """
    plain = f"{CHILD_PREFIX}{unit_name}"
    if len(plain) <= LABEL_LIMIT and "." not in unit_name:
        return plain
    digest = sha256(unit_name.encode()).hexdigest()[:_DIGEST_LENGTH]
    beginning = unit_name.replace(".", "-")[:_KEPT].rstrip("-")
    return f"{_LONG_PREFIX}{beginning}-{digest}"


def unit_selector(unit_name: str) -> FrozenDict[str, str]:
    """The labels that select the pods of a unit. They never change: a Deployment cannot be given another selector."""
    return FrozenDict({UNIT_LABEL: label_value(unit_name)})


def unit_labels(unit_name: str) -> FrozenDict[str, str]:
    """The labels of the children of a unit and of its pods."""
    return FrozenDict({APP_LABEL: APP_NAME, MANAGED_BY_LABEL: MANAGED_BY}) | unit_selector(unit_name)
