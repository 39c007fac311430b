"""Storages with a lock."""

from datetime import UTC, datetime

from attrs import evolve

from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.desired.storage.locks import Lock

__all__ = ["locked"]


def locked(storage: GPUStorage, lock: Lock) -> GPUStorage:
    """The storage with this lock."""
    written = {
        key: text for key, text in lock.annotations(datetime(2026, 1, 1, tzinfo=UTC)).items() if text is not None
    }
    return evolve(storage, metadata=evolve(storage.metadata, annotations=storage.metadata.annotations | written))
