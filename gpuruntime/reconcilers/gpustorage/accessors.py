"""What the reconciler of storages asks of the accessor: a place where it is plugged in, if it is configured."""

from typing import Any, Protocol

from gpuruntime.api.gpustorage import AccessorStatus, GPUStorage
from gpuruntime.control import Context, ControllerBuilder

__all__ = ["AccessorOutcome", "AccessorWatches", "Accessors"]


class AccessorOutcome(Protocol):
    """The state of an accessor, None if it is not enabled, and after how many seconds to try a refused write again."""

    @property
    def status(self) -> AccessorStatus | None: ...

    @property
    def retry_seconds(self) -> float | None: ...


class AccessorWatches(Protocol):
    """The caches of the accessor's objects."""

    def owned_by(self, builder: "ControllerBuilder[Any]") -> "ControllerBuilder[Any]":
        """Have the controller of storages own them."""


class Accessors(Protocol):
    """Syncs the accessors of storages."""

    @property
    def caches(self) -> AccessorWatches: ...

    async def sync(self, ctx: Context, storage: GPUStorage, *, is_mountable: bool, is_bound: bool) -> AccessorOutcome:
        """Bring the accessor of a storage to its desired state."""

    async def remove(self, ctx: Context, storage: GPUStorage) -> bool:
        """Delete the accessor; returns whether anything of it is left."""
