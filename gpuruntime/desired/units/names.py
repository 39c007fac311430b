"""Names, labels and selector of a unit's children."""

from hashlib import sha256
from typing import Final

from gpuruntime.api.names import APP_LABEL, APP_NAME, MANAGED_BY, MANAGED_BY_LABEL, UNIT_LABEL, label_value
from gpuruntime.meta import LABEL_LIMIT, FrozenDict

__all__ = ["CHILD_PREFIX", "child_name", "unit_labels", "unit_selector"]

CHILD_PREFIX: Final = "unit-"
# No unit's name begins with a dash, so the name for a long unit name never equals that for a short one.
_LONG_PREFIX: Final = "unit--"
_DIGEST_LENGTH: Final = 10
_KEPT: Final = LABEL_LIMIT - len(_LONG_PREFIX) - _DIGEST_LENGTH - 1


def child_name(unit_name: str) -> str:
    """The name of a unit's Deployment and Service: "unit-<name>" if that is a valid Service name.

    Guarantees: a DNS label of at most 63 characters for every valid unit name. Different units have different names,
    except for collisions of 40 bits of SHA-256 between names that are long or have dots.
    """
    plain = f"{CHILD_PREFIX}{unit_name}"
    if len(plain) <= LABEL_LIMIT and "." not in unit_name:
        return plain
    digest = sha256(unit_name.encode()).hexdigest()[:_DIGEST_LENGTH]
    beginning = unit_name.replace(".", "-")[:_KEPT].rstrip("-")
    return f"{_LONG_PREFIX}{beginning}-{digest}"


def unit_selector(unit_name: str) -> FrozenDict[str, str]:
    """The labels that select the pods of a unit. They never change, because a Deployment's selector is immutable."""
    return FrozenDict({UNIT_LABEL: label_value(unit_name)})


def unit_labels(unit_name: str) -> FrozenDict[str, str]:
    """The labels of a unit's children and pods."""
    return FrozenDict({APP_LABEL: APP_NAME, MANAGED_BY_LABEL: MANAGED_BY}) | unit_selector(unit_name)
