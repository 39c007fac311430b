"""Waiting, within a request, until a unit is what its caller hopes for."""

from attrs import frozen

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.reasons import READY_CONDITION
from gpuruntime.control import WaitTimeoutError, condition_true, wait_for
from gpuruntime.control.informers.consistent_read import has_reached
from gpuruntime.control.informers.waiting import Predicate
from gpuruntime.meta import ObjectKey
from gpuruntime.service.errors import ObjectNotFoundError
from gpuruntime.service.reads.reader import ReadResult, Reads, is_at_least

__all__ = ["DeletionResult", "UnitWaiting", "Waited"]

_READY: Predicate[GPUUnit] = condition_true(READY_CONDITION)


@frozen
class Waited:
    """A unit, and whether it came to be what was waited for."""

    seen: ReadResult[GPUUnit]
    is_fulfilled: bool


@frozen
class DeletionResult:
    """What is left of a unit after a wait for its end: the unit as it is, None if it is gone, and its UID if known."""

    seen: ReadResult[GPUUnit] | None
    uid: str | None = None


@frozen
class UnitWaiting:
    """Waits for units, by the cache: there is no polling, and no request to the cluster while nothing happens."""

    reads: Reads[GPUUnit]

    async def ready(self, key: ObjectKey, version: str, within: float) -> Waited:
        """The unit once it is ready in a state of this version or newer, or as it is when the time is over.

        Raises:
            ObjectNotFoundError: it is gone.
            KubeError: the server is away.
        """
        store = self.reads.informer.store

        def holds(unit: GPUUnit | None) -> bool:
            if unit is None:
                # It is gone, and not merely unseen as yet.
                return has_reached(store, key, version)
            return is_at_least(unit.metadata.resource_version, version) and _READY.holds(unit)

        predicate: Predicate[GPUUnit] = Predicate("it is ready, or gone", holds)
        try:
            found = await wait_for(self.reads.informer, key, predicate, within=within)
        except WaitTimeoutError:
            return Waited(await self.reads.get(key, version), is_fulfilled=False)
        if found is None:
            raise ObjectNotFoundError(f"unit {key} was deleted while it was waited for")
        return Waited(ReadResult(found, self.reads.age()), is_fulfilled=True)

    async def gone(self, key: ObjectKey, version: str, within: float) -> DeletionResult:
        """What is left of a unit once it is gone, or when the time is over, by a state of this version or newer.

        Raises:
            NotRunningError, KubeError: it cannot be told now.
        """
        uid = None
        try:
            uid = (await self.reads.get(key, version)).object.metadata.uid
            is_gone = await self.reads.gone(key, uid, within)
            return DeletionResult(None if is_gone else await self.reads.get(key, version), uid)
        except ObjectNotFoundError:
            return DeletionResult(None, uid)
