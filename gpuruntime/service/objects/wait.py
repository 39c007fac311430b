"""Waiting until an object is ready or deleted, by the cache."""

from typing import Final, Generic, TypeVar

from attrs import frozen

from gpuruntime.api.reasons import READY_CONDITION
from gpuruntime.control import WaitCondition, WaitTimeoutError, condition_true, has_reached, wait_for
from gpuruntime.meta import ObjectKey, TypedObject
from gpuruntime.service.errors import ObjectNotFoundError
from gpuruntime.service.reads.reader import ReadResult, Reads, is_at_least

__all__ = ["DeletionResult", "ObjectWaiter", "ReadyResult"]

K = TypeVar("K", bound=TypedObject)
_READY: Final = condition_true(READY_CONDITION)


@frozen
class ReadyResult(Generic[K]):
    """An object after a wait, and whether it became ready before the timeout."""

    read: ReadResult[K]
    is_ready: bool


@frozen
class DeletionResult(Generic[K]):
    """An object after a wait for its deletion: None if it is gone; and its UID if known."""

    read: ReadResult[K] | None
    uid: str | None = None


@frozen
class ObjectWaiter(Generic[K]):
    """Waits for objects by watching the cache. It neither polls nor sends requests while nothing changes."""

    reads: Reads[K]

    async def until_ready(self, key: ObjectKey, version: str, within: float) -> ReadyResult[K]:
        """The object once it is ready at this version or a newer one, or as it is after the timeout.

        Raises:
            ObjectNotFoundError: it was deleted.
            KubeError: the cache is behind, and the API server is unavailable.
        """
        store = self.reads.informer.store

        def holds(found: K | None) -> bool:
            if found is None:
                # Deleted, and not just missing from a cache that is behind.
                return has_reached(store, key, version)
            return is_at_least(found.metadata.resource_version, version) and _READY.holds(found)

        predicate: WaitCondition[K] = WaitCondition("it is ready, or deleted", holds)
        try:
            found = await wait_for(self.reads.informer, key, predicate, within=within)
        except WaitTimeoutError:
            return ReadyResult(await self.reads.get(key, version), is_ready=False)
        if found is None:
            raise ObjectNotFoundError(f"{self.reads.kind.KIND.kind} {key} was deleted before it became ready")
        return ReadyResult(ReadResult(found, self.reads.age()), is_ready=True)

    async def until_deleted(self, key: ObjectKey, version: str, within: float) -> DeletionResult[K]:
        """The result once the object is gone, or after the timeout; from a state of this version or newer.

        Raises:
            NotRunningError, KubeError: see `Reads.get`.
        """
        uid = None
        try:
            uid = (await self.reads.get(key, version)).object.metadata.uid
            is_gone = await self.reads.gone(key, uid, within)
            return DeletionResult(None if is_gone else await self.reads.get(key, version), uid)
        except ObjectNotFoundError:
            return DeletionResult(None, uid)
