"""The StockPool reconciler: keeps ready stock, and says how much there is.

What to do next is decided in `desired.pool`; this does it. Units are removed only in the state in which they were seen,
so that a claim that came first wins.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Final

from attrs import evolve, field, frozen

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import POOL_LABEL, label_value
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.api.reasons import (
    INVALID_SPEC,
    POOL_PROGRESSING,
    POOL_READY,
    READY_CONDITION,
    SCALED_TO_ZERO,
    UNIT_SYNC_FAILED,
)
from gpuruntime.api.stockpool import StockPool
from gpuruntime.control import (
    Controller,
    ControllerOptions,
    Manager,
    Recorder,
    Result,
    RunInfo,
    Store,
    Watch,
    allow,
    allow_events,
    allow_status,
    any_of,
    enqueue_mapped,
    enqueue_object,
    generation_changed,
    write_status,
)
from gpuruntime.desired.pool import PoolPlan, next_steps, pool_status
from gpuruntime.desired.pool_units import has_strayed, is_pool, maker_of, serial_of, stock_unit
from gpuruntime.desired.problems import told
from gpuruntime.desired.provenance import claim_of, provenance_of
from gpuruntime.desired.validation import stock_problems
from gpuruntime.kube import AlreadyExistsError, Client, MergePatch, NotFoundError, StatusError
from gpuruntime.meta import ObjectKey, controller_of, encode, find_condition, set_controller
from gpuruntime.reconcilers.foreign_status import status_touched
from gpuruntime.reconcilers.orphans import OWNERSHIP, OrphanCollector, OrphanRemoval
from gpuruntime.reconcilers.refill_pace import Pace, RefillPace
from gpuruntime.reconcilers.unit_hindrances import REFUSED_SECONDS
from gpuruntime.service.objects.admission import REFUSALS
from gpuruntime.service.reads.unit_index import source_pool_key, units_from_pool, units_of_pool, watch_units

__all__ = ["StockPoolOptions", "StockPoolReconciler", "install_stockpool"]

_ACTION: Final = "Refill"
_ADMISSION: Final = "asked for by the admission plugin OwnerReferencesPermissionEnforcement, not by a request"
_STRAYED: Final = "used when a stock unit has lost its owner reference or its label"
_NORMAL: Final = frozenset({POOL_READY, POOL_PROGRESSING, SCALED_TO_ZERO})


@frozen
class StockPoolOptions:
    """The namespaces of the product, how fast a pool creates units, the maximum concurrent reconciles, and the seconds
    until a rejected unit is retried.
    """

    namespaces: Namespaces = field(factory=Namespaces)
    pace: Pace = field(factory=Pace)
    concurrency: int = 4
    refused_seconds: float = REFUSED_SECONDS


def install_stockpool(manager: Manager, options: StockPoolOptions | None = None) -> Controller[ObjectKey]:
    """Have a manager reconcile StockPools. Before it runs, and in a running loop."""
    chosen = options or StockPoolOptions()
    pools = manager.cache.informer(StockPool, namespaces=chosen.namespaces.units)
    units = watch_units(manager.cache, chosen.namespaces.units)
    pace = RefillPace(chosen.pace, asyncio.get_running_loop().time)
    orphans = OrphanRemoval(manager.client, StockPool.KIND)
    reconciler = StockPoolReconciler(
        pools.store, units.store, manager.client, manager.recorder, pace, orphans, chosen, now=manager.server_time.now
    )
    OrphanCollector(manager.observability.registry, orphans, "pool", (GPUUnit.KIND,))
    stock = tuple(sorted(chosen.namespaces.stock))
    manager.declare(
        allow(GPUUnit, "create", "delete", namespaces=stock),
        allow(GPUUnit, "patch", namespaces=stock, rare=_STRAYED),
        allow(StockPool, "update", subresource="finalizers", namespaces=stock, rare=_ADMISSION),
        allow_status(StockPool),
        allow_events(StockPool),
    )
    return manager.add_controller(
        "stockpool",
        reconciler,
        [
            Watch(pools, enqueue_object(), [any_of(generation_changed(), status_touched)]),
            Watch(units, enqueue_mapped(pools_of_unit)),
        ],
        ControllerOptions(concurrency=chosen.concurrency),
    )


def pools_of_unit(unit: GPUUnit) -> Iterator[ObjectKey]:
    """The pools that a unit concerns: the one that made it, that owns it, that it was claimed from, whose capacity it
    took over.
    """
    namespace = unit.metadata.namespace
    owner, claim, source = controller_of(unit.metadata), claim_of(unit.metadata), provenance_of(unit.metadata)
    maker = maker_of(unit.metadata.annotations)
    if maker:
        yield ObjectKey(namespace, maker)
    if owner is not None and is_pool(owner):
        yield ObjectKey(namespace, owner.name)
    if claim is not None and claim.pool:
        yield ObjectKey(namespace, claim.pool)
    if source is not None and (pool := source_pool_key(source)) is not None:
        yield pool


@frozen
class StockPoolReconciler:
    """Makes and removes stock units by the plan, and writes the status when it says something new.

    Guarantees:
        - An unchanged pool costs no write.
        - A spec of which no unit can come, or a namespace that is not for stock, changes no unit.
        - A unit that the pool made and that lost its owner reference or its label gets them back; if the pool is gone,
          the unit goes, unless it is claimed.
        - What the server refuses is told, and tried again after a while, because rules of a cluster change without
          telling anybody.
    """

    pools: Store[StockPool]
    units: Store[GPUUnit]
    client: Client
    recorder: Recorder
    pace: RefillPace
    orphans: OrphanRemoval
    options: StockPoolOptions = field(factory=StockPoolOptions)
    now: Callable[[], datetime] = field(kw_only=True)

    async def reconcile(self, key: ObjectKey, _context: RunInfo) -> Result:
        pool = self.pools.get(key)
        await self._remove_orphans(key, pool)
        if pool is None or pool.metadata.deletion_timestamp is not None:
            self.pace.forget(key)
            return Result.done()
        units = units_of_pool(self.units, key)
        if await self._take_back([unit for unit in units if has_strayed(unit, pool)], pool):
            return Result.done()  # the units tell of it, and bring a run that counts them
        now, faults = self.now(), self._faults(pool)
        plan = next_steps(
            pool,
            units,
            units_from_pool(self.units, key),
            now=now,
            allowance=0 if faults else self.pace.allowance(key),
        )
        if faults:
            await self._tell(pool, evolve(plan, delete=(), reason=INVALID_SPEC, message=faults))
            return Result.done()
        await self._remove(plan.delete)
        refusal, last = await self._make(pool, plan)
        if refusal is not None:
            message = f"stock units are refused: {refusal}"
            await self._tell(pool, evolve(plan, last_serial=last, reason=UNIT_SYNC_FAILED, message=message))
            return Result.after(self.options.refused_seconds)
        await self._tell(pool, plan)
        if plan.limited:
            return Result.after(self.pace.wait(key))
        return Result.done() if plan.retry_at is None else Result.after((plan.retry_at - now).total_seconds())

    async def _remove_orphans(self, key: ObjectKey, pool: StockPool | None) -> None:
        """Remove what an earlier pool of this name made and what outlived it, but for what is claimed."""
        uid = None if pool is None else pool.metadata.uid
        for unit in units_of_pool(self.units, key):
            if OWNERSHIP.owner_uid(unit.metadata) != uid and claim_of(unit.metadata) is None:
                await self.orphans.remove(unit, "")

    async def _take_back(self, units: Sequence[GPUUnit], pool: StockPool) -> bool:
        for unit in units:
            meta = set_controller(unit.metadata, pool)
            owned = {
                "ownerReferences": [encode(reference) for reference in meta.owner_references],
                "labels": {POOL_LABEL: label_value(pool.metadata.name)},
            }
            patch = MergePatch({"metadata": owned}).locked(meta.resource_version)
            await self.client.patch(GPUUnit, meta.name, meta.namespace, patch)
        return bool(units)

    def _faults(self, pool: StockPool) -> str:
        """Why no unit of the pool can be, "" if there is no such reason."""
        namespace, namespaces = pool.metadata.namespace, self.options.namespaces
        if not namespaces.is_stock(namespace):
            where = ", ".join(sorted(namespaces.stock))
            return f"namespace {namespace}: expected a stock namespace ({where}); create the pool there"
        return told(stock_problems(pool.spec))

    async def _remove(self, units: Sequence[GPUUnit]) -> None:
        for unit in units:
            meta = unit.metadata
            try:
                await self.client.delete(
                    GPUUnit, meta.name, meta.namespace, uid=meta.uid, resource_version=meta.resource_version
                )
            except NotFoundError:
                continue

    async def _make(self, pool: StockPool, plan: PoolPlan) -> tuple[StatusError | None, int]:
        """Make the units of the plan: why the server refused one, if it did, and the last number that was given."""
        last = plan.last_serial - len(plan.create)
        for name in plan.create:
            try:
                await self.client.create(stock_unit(pool, name))
            except AlreadyExistsError:
                # The first try was stored although it seemed to fail; or somebody took the name: then the next run
                # takes the next one.
                pass
            except REFUSALS as error:
                return error, last
            self.pace.spend(pool.key, 1)
            last = serial_of(pool, name)
        return None, last

    async def _tell(self, pool: StockPool, plan: PoolPlan) -> None:
        status = pool_status(pool, plan, self.now())
        if status is pool.status:
            return
        before = find_condition(pool.status.conditions, READY_CONDITION)
        await write_status(self.client, pool, status)
        if before is None or before.reason != plan.reason:
            is_normal = plan.reason in _NORMAL
            self.recorder.record(pool, "Normal" if is_normal else "Warning", plan.reason, _ACTION, plan.message)
