"""The source of a copy: whether it can be copied now, and whether the copy has it."""

from attrs import frozen

from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.api.reasons import READY_CONDITION
from gpuruntime.desired.storage.locks import lock_of
from gpuruntime.meta import find_condition

__all__ = ["NO_SOURCE", "Source", "source_of"]


@frozen
class Source:
    """The source of a preparation.

    Args:
        blocked: why it cannot be copied now, "" if it can.
        is_locked: whether the storage that copies has it; always so where there is nothing to lock.
    """

    blocked: str = ""
    is_locked: bool = True


NO_SOURCE = Source()
"""A preparation that copies nothing."""


def source_of(storage: GPUStorage, source: GPUStorage | None) -> Source:
    """The source of a storage; `source` is the storage that it copies, None if there is none of this name."""
    prepare = storage.spec.prepare
    if prepare is None or prepare.from_storage_name is None:
        return NO_SOURCE
    name = prepare.from_storage_name
    if source is None:
        return Source(f"the source, storage {name}, does not exist; create it", is_locked=False)
    lock = lock_of(source.metadata)
    is_locked = lock is not None and lock.is_held_by(storage)
    if source.metadata.deletion_timestamp is not None:
        return Source(f"the source, storage {name}, is being deleted", is_locked)
    ready = find_condition(source.status.conditions, READY_CONDITION)
    if ready is None or ready.status != "True":
        why = "not reconciled yet" if ready is None else f"{ready.reason}: {ready.message}"
        return Source(f"the source, storage {name}, is not ready ({why})", is_locked)
    if lock is not None and not is_locked:
        return Source(f"the source, storage {name}, is in use by {lock.holder}", is_locked=False)
    return Source("", is_locked)
