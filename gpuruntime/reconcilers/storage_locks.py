"""The lock reaper: ends locks on storages that no process will end, and completes those of units that exist.

What becomes of a lock is in `gpuruntime.desired.storage.lock_verdict`. A lock is released only after live reads, in the
order in which pods come into being: unit, Operation, Deployment, ReplicaSets, pods. What is gone in this order stays
gone. The release is a conditional write: a storage that changed since, in its lock too, is decided anew.

An Operation may have been deleted while a process still works on it: such a process stops when its lease expires. So a
lock whose Operation is not there is kept for one lease duration, as the claim reaper does.
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final

from attrs import field, frozen

from gpuruntime.aio import seconds_since_boot
from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.api.operation import Operation
from gpuruntime.control import (
    Change,
    Context,
    Controller,
    ControllerOptions,
    Manager,
    QuarantinedError,
    Recorder,
    Result,
    Store,
    allow,
    allow_events,
)
from gpuruntime.desired.storage.lock_verdict import LockVerdict, judge_lock
from gpuruntime.desired.storage.locks import Lock, holder_name, lock_of
from gpuruntime.kube import Client, ConflictError, InvalidError, NotFoundError
from gpuruntime.kube.builtin.apps import Deployment, ReplicaSet
from gpuruntime.meta import ObjectKey
from gpuruntime.reconcilers.child_sync_errors import REFUSED_SECONDS
from gpuruntime.reconcilers.lock_sights import LockSights
from gpuruntime.reconcilers.pods import volumes_freed, watch_pods
from gpuruntime.reconcilers.unit_turns import UnitTurns
from gpuruntime.service.operations.record import LeaseTiming, has_ended
from gpuruntime.service.reads.informers import (
    storages_held_by,
    storages_locked_by,
    watch_operations,
    watch_storages,
    watch_units,
)
from gpuruntime.service.storage.locks import LockedByAnotherError, acquire, release

__all__ = ["LockReaper", "StorageLockOptions", "install_storage_locks"]

_ACTION: Final = "Reap"
_VOID: Final = "used when a lock on a storage is void"
_SOON_SECONDS: Final = 1.0
# An Operation that is there brings a run when it ends.
_WATCHED: Final = float("inf")


@frozen
class StorageLockOptions:
    """How locks are reaped.

    Args:
        namespaces: the namespaces of the product.
        timing: the lease of an Operation.
        turns: those that the reconciler of units in this process takes too.
        concurrency: how many storages are looked at at a time.
        refused_seconds: after how many seconds a write that the server refused is retried.
    """

    namespaces: Namespaces = field(factory=Namespaces)
    timing: LeaseTiming = field(factory=LeaseTiming)
    turns: UnitTurns = field(factory=UnitTurns)
    concurrency: int = 4
    refused_seconds: float = REFUSED_SECONDS


def install_storage_locks(manager: Manager, options: StorageLockOptions | None = None) -> Controller[ObjectKey]:
    """Add the lock reaper to a manager. Before it runs."""
    chosen = options or StorageLockOptions()
    active = tuple(sorted(chosen.namespaces.instance))
    storages = watch_storages(manager.cache, active)
    units = watch_units(manager.cache, chosen.namespaces.units)
    operations = watch_operations(manager.cache, chosen.namespaces.system)
    pods = watch_pods(manager.cache, chosen.namespaces.units)
    client, system = manager.client, chosen.namespaces.system
    sights = LockSights(storages.store, units.store, operations.store, pods.store, client, system)
    reaper = LockReaper(storages.store, sights, client, manager.recorder, chosen, manager.server_time.now)

    def held_by(holder: GPUUnit | GPUStorage) -> Iterator[ObjectKey]:
        namespace = holder.metadata.namespace
        yield from (each.key for each in storages_held_by(storages.store, namespace, holder_name(holder)))

    def locked_by(operation: Operation) -> Iterator[ObjectKey]:
        yield from (each.key for each in storages_locked_by(storages.store, operation.metadata.uid))

    def storage_and_held(storage: GPUStorage) -> Iterator[ObjectKey]:
        yield storage.key
        yield from held_by(storage)

    return (
        manager.controller(name="storage-lock", options=ControllerOptions(concurrency=chosen.concurrency))
        .watches(storages, storage_and_held, when=_lock_or_copy_changed)
        .watches(units, held_by, when=_mounts_changed)
        .watches(operations, locked_by)
        .watches(pods, trigger=volumes_freed)
        .permissions(
            allow(GPUUnit, "get", rare=_VOID),
            allow(GPUStorage, "get", "patch", namespaces=active, rare=_VOID),
            allow(Operation, "get", namespaces=[chosen.namespaces.system], rare=_VOID),
            allow(Deployment, "get", namespaces=active, rare=_VOID),
            allow(ReplicaSet, "list", namespaces=active, rare=_VOID),
            allow_events(GPUStorage),
        )
        .reconcile_keys(reaper.reconcile)
    )


def _lock_or_copy_changed(change: Change[GPUStorage]) -> bool:
    """A predicate: the lock on a storage, or its own preparation, which may hold the lock on another, changed."""
    before, after = (
        None if state is None else (state.metadata.uid, lock_of(state.metadata), state.status.prepare)
        for state in (change.before, change.after)
    )
    return before != after


def _mounts_changed(change: Change[GPUUnit]) -> bool:
    """A predicate: a unit came or went, or mounts other storages."""
    before, after = (
        None if state is None else (state.metadata.uid, state.spec.storage_mounts)
        for state in (change.before, change.after)
    )
    return before != after


@frozen
class LockReaper:
    """Ends or completes the lock on one storage.

    Guarantees:
        No lock is released whose holder needs it or may come to need it, or while anything uses the volume; see
        `judge_lock`. An unchanged lock costs no write, and no request. What the server refuses is recorded as an event,
        and retried after a while.
    """

    storages: Store[GPUStorage]
    sights: LockSights
    client: Client
    recorder: Recorder
    options: StorageLockOptions
    now: Callable[[], datetime]
    clock: Callable[[], float] = seconds_since_boot
    _since: dict[ObjectKey, tuple[str, float]] = field(factory=dict)

    async def reconcile(self, key: ObjectKey, _ctx: Context) -> Result:
        """Reconcile the lock on one storage."""
        try:
            storage = self.storages.get(key)
            lock = None if storage is None else lock_of(storage.metadata)
            if storage is None or lock is None:
                self._since.pop(key, None)
                return Result.done()
            return await self._attempt(storage, lock)
        except QuarantinedError:
            # What cannot be read is not taken for deleted.
            return Result.done()

    async def _attempt(self, storage: GPUStorage, lock: Lock) -> Result:
        try:
            return await self._reap(storage, lock)
        except (ConflictError, NotFoundError, LockedByAnotherError):
            # The change brings a run too, but the cache may show it late.
            return Result.after(_SOON_SECONDS)
        except InvalidError as error:
            self.recorder.record(storage, "Warning", "LockEndRefused", _ACTION, error.message or str(error))
            return Result.after(self.options.refused_seconds)

    async def _reap(self, storage: GPUStorage, lock: Lock) -> Result:
        left = self._left(storage.key, lock)
        expected = self.sights.cached(storage, lock, can_operation_act=left > 0)
        if judge_lock(storage, lock, expected) is LockVerdict.KEEP:
            return Result.after(left) if 0 < left < _WATCHED else Result.done()
        if not lock.unit_name:
            return await self._end(storage, lock)
        async with self.options.turns.of(ObjectKey(storage.metadata.namespace, lock.unit_name)):
            return await self._end(storage, lock)

    async def _end(self, storage: GPUStorage, lock: Lock) -> Result:
        sight = await self.sights.live(storage, lock)
        match judge_lock(storage, lock, sight):
            case LockVerdict.COMPLETE if isinstance(sight.holder, GPUUnit):
                await acquire(self.client, storage, Lock.of(sight.holder), self.now())
            case LockVerdict.RELEASE:
                await release(self.client, storage)
                self.recorder.record(storage, "Normal", "LockReleased", _ACTION, f"not used any more by {lock.holder}")
            case _:
                # The caches lag behind what was read, and no event tells when a ReplicaSet is gone.
                return Result.after(_SOON_SECONDS)
        return Result.done()

    def _left(self, key: ObjectKey, lock: Lock) -> float:
        """Seconds for which the Operation of a lock may still act: 0 if it has ended or there is none."""
        operation = self.sights.operation(lock)
        if not lock.operation or (operation is not None and has_ended(operation)):
            return 0.0
        if operation is not None:
            self._since.pop(key, None)
            return _WATCHED
        known = self._since.get(key)
        if known is None or known[0] != lock.operation_uid:
            known = self._since[key] = (lock.operation_uid, self.clock())
        return max(known[1] + self.options.timing.lease - self.clock(), 0.0)
