"""The names of seeded stock units: a function of the operationID, so that nobody seeds a batch twice."""

import re
from hashlib import sha256
from typing import Final

__all__ = ["LARGEST_BATCH", "batch_name", "stock_name"]

LARGEST_BATCH: Final = 999
_NAME_LIMIT: Final = 63
_NUMBER_LENGTH: Final = 4
_HASH_LENGTH: Final = 10
_PREFIX: Final = "stock-"
_SPEC_LIMIT: Final = _NAME_LIMIT - len(_PREFIX) - 1 - _HASH_LENGTH - _NUMBER_LENGTH
_FOREIGN: Final = re.compile(r"[^a-z0-9-]+")


def batch_name(spec_name: str, operation_id: str) -> str:
    """The name that all units of a batch begin with, such as "stock-g1-1-0a1b2c3d4e".

    Guarantees: a legal name whatever the spec is called; different operationIDs give different names but for collisions
    of 40 bits of SHA-256, because a long spec name is cut and the hash never is.
    """
    spec = _FOREIGN.sub("-", spec_name.lower()).strip("-")[:_SPEC_LIMIT].strip("-") or "default"
    digest = sha256(operation_id.encode()).hexdigest()[:_HASH_LENGTH]
    return f"{_PREFIX}{spec}-{digest}"


def stock_name(batch: str, ordinal: int) -> str:
    """The name of one unit of a batch; ordinals begin with 1.

    Raises:
        ValueError: an ordinal that no batch has.
    """
    if not 1 <= ordinal <= LARGEST_BATCH:
        raise ValueError(f"expected an ordinal from 1 to {LARGEST_BATCH}, got {ordinal}")
    return f"{batch}-{ordinal:03d}"
