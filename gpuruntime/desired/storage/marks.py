"""The marks of a preparation on the PersistentVolumeClaim, beside the data that they are about.

`PREPARE_STARTED` names the attempt that may have written to the volume; it is written before the program runs.
`PREPARED` is written when the program has succeeded, and is never removed.
"""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from attrs import frozen

from gpuruntime.api.gpustorage import StoragePrepare
from gpuruntime.api.names import PREPARE_STARTED, PREPARED
from gpuruntime.meta import known_fields

__all__ = ["CLONE", "Marks", "Started", "digest_of"]

CLONE: Final = "clone"
"""In the place of a Job's UID: the provisioner clones the volume, and no Job runs."""
_DIGEST_LENGTH: Final = 16
_PARTS: Final = 4


def digest_of(prepare: StoragePrepare) -> str:
    """The digest of a preparation. It is equal for two that mean the same to this version."""
    canonical = json.dumps(known_fields(prepare), sort_keys=True, separators=(",", ":"))
    return sha256(canonical.encode()).hexdigest()[:_DIGEST_LENGTH]


@frozen
class Started:
    """An attempt: "<digest>/<attempt>/<UID of its Job>/<recovery nonce>". The nonce is that which asked for it."""

    digest: str
    attempt: int
    job_uid: str
    nonce: str = ""

    def __str__(self) -> str:
        return f"{self.digest}/{self.attempt}/{self.job_uid}/{self.nonce}"


@frozen
class Marks:
    """The marks on a PersistentVolumeClaim.

    A started mark that cannot be read counts as an attempt whose Job is unknown: something may have been written.
    """

    started: Started | None = None
    prepared: str = ""

    @classmethod
    def of(cls, annotations: Mapping[str, str]) -> "Marks":
        text = annotations.get(PREPARE_STARTED)
        return cls(None if text is None else _started(text), annotations.get(PREPARED, ""))


def _started(text: str) -> Started:
    parts = text.split("/", _PARTS - 1)
    if len(parts) < _PARTS or not parts[1].isascii() or not parts[1].isdigit():
        return Started(parts[0], 1, "")
    return Started(parts[0], int(parts[1]), parts[2], parts[3])
