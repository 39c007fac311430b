"""The StockPool reconciler: keeps ready stock, and reports how much there is.

`desired.pools` decides what to do; this does it. Units are deleted only in the state in which they were read, so that a
claim that came first wins.
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
    Context,
    Controller,
    ControllerOptions,
    Manager,
    Result,
    Store,
    allow,
    any_of,
    generation_changed,
)
from gpuruntime.desired.pools.plan import PoolPlan, next_steps, pool_status
from gpuruntime.desired.pools.units import creating_pool, has_lost_ownership, is_pool, serial_of, stock_unit
from gpuruntime.desired.provenance import claim_of, provenance_of
from gpuruntime.desired.validation import format_violations, spec_violations
from gpuruntime.kube import AlreadyExistsError, MergePatch, NotFoundError, StatusError
from gpuruntime.meta import ObjectKey, controller_of, encode, find_condition, set_controller
from gpuruntime.reconcilers.child_sync_errors import REFUSED_SECONDS
from gpuruntime.reconcilers.foreign_status import status_touched
from gpuruntime.reconcilers.orphans import OWNERSHIP, OrphanCollector, OrphanRemoval
from gpuruntime.reconcilers.refill_pace import Pace, RefillPace
from gpuruntime.service.objects.admission import REFUSALS
from gpuruntime.service.reads.informers import source_pool_key, units_from_pool, units_of_pool, watch_units

__all__ = ["StockPoolOptions", "StockPoolReconciler", "install_stockpool"]

_ACTION: Final = "Refill"
_ADMISSION: Final = "asked for by the admission plugin OwnerReferencesPermissionEnforcement, not by a request"
_STRAYED: Final = "used when a stock unit has lost its owner reference or its label"
_NORMAL: Final = frozenset({POOL_READY, POOL_PROGRESSING, SCALED_TO_ZERO})


@frozen
class StockPoolOptions:
    """How pools are reconciled.

    Args:
        namespaces: the namespaces of the product.
        pace: how fast a pool creates units.
        concurrency: how many pools are reconciled at a time.
        refused_seconds: after how many seconds a unit that the server refused is retried.
    """

    namespaces: Namespaces = field(factory=Namespaces)
    pace: Pace = field(factory=Pace)
    concurrency: int = 4
    refused_seconds: float = REFUSED_SECONDS


def install_stockpool(manager: Manager, options: StockPoolOptions | None = None) -> Controller[ObjectKey]:
    """Add the StockPool controller to a manager. Before it runs, and in a running loop."""
    chosen = options or StockPoolOptions()
    units = watch_units(manager.cache, chosen.namespaces.units)
    pace = RefillPace(chosen.pace, asyncio.get_running_loop().time)
    orphans = OrphanRemoval(manager.client, StockPool.KIND)
    reconciler = StockPoolReconciler(units.store, pace, orphans, chosen, now=manager.server_time.now)
    OrphanCollector(manager.observability.registry, orphans, "pool", (GPUUnit.KIND,))
    stock = tuple(sorted(chosen.namespaces.stock))
    return (
        manager.controller(
            StockPool,
            namespaces=chosen.namespaces.units,
            when=any_of(generation_changed(), status_touched),
            options=ControllerOptions(concurrency=chosen.concurrency),
        )
        .watches(units, pools_of_unit)
        .updates_status()
        .records_events()
        .permissions(
            allow(GPUUnit, "create", "delete", namespaces=stock),
            allow(GPUUnit, "patch", namespaces=stock, rare=_STRAYED),
            allow(StockPool, "update", subresource="finalizers", namespaces=stock, rare=_ADMISSION),
        )
        .reconcile_keys(reconciler.reconcile)
    )


def pools_of_unit(unit: GPUUnit) -> Iterator[ObjectKey]:
    """The pools to reconcile when a unit changes: the one that created it, that owns it, that it was claimed from,
    whose capacity it took over.
    """
    namespace = unit.metadata.namespace
    owner, claim, source = controller_of(unit.metadata), claim_of(unit.metadata), provenance_of(unit.metadata)
    maker = creating_pool(unit.metadata.annotations)
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
    """Creates and deletes stock units as planned, and writes the status if it differs.

    Guarantees:
        - An unchanged pool costs no write.
        - An invalid spec, or a namespace that is not for stock, changes no unit.
        - A unit of the pool that lost its owner reference or its label gets them back; if the pool is gone, the unit is
          deleted, unless it is claimed.
        - What the server refuses is in the status, and retried after a while: quotas and policies change without a
          change of anything that is watched.
    """

    units: Store[GPUUnit]
    pace: RefillPace
    orphans: OrphanRemoval
    options: StockPoolOptions = field(factory=StockPoolOptions)
    now: Callable[[], datetime] = field(kw_only=True)

    async def reconcile(self, key: ObjectKey, ctx: Context) -> Result:
        """Reconcile one pool."""
        pool = ctx.store(StockPool).get(key)
        await self._delete_orphans(key, pool)
        if pool is None or pool.metadata.deletion_timestamp is not None:
            self.pace.forget(key)
            return Result.done()
        return await self._sync(pool, ctx.of(pool))

    async def _sync(self, pool: StockPool, ctx: Context) -> Result:
        key = pool.key
        units = units_of_pool(self.units, key)
        if await _take_back(ctx, [unit for unit in units if has_lost_ownership(unit, pool)], pool):
            return Result.done()  # the changed units bring a run that counts them
        now, faults = self.now(), self._faults(pool)
        plan = next_steps(
            pool,
            units,
            units_from_pool(self.units, key),
            now=now,
            allowance=0 if faults else self.pace.allowance(key),
        )
        if faults:
            await self._update_status(pool, ctx, evolve(plan, delete=(), reason=INVALID_SPEC, message=faults))
            return Result.done()
        await _delete(ctx, plan.delete)
        refusal, last = await self._create(pool, ctx, plan)
        if refusal is not None:
            message = f"stock units are refused: {refusal}"
            refused = evolve(plan, last_serial=last, reason=UNIT_SYNC_FAILED, message=message)
            await self._update_status(pool, ctx, refused)
            return Result.after(self.options.refused_seconds)
        await self._update_status(pool, ctx, plan)
        if plan.limited:
            return Result.after(self.pace.wait(key))
        return Result.done() if plan.retry_at is None else Result.after((plan.retry_at - now).total_seconds())

    async def _delete_orphans(self, key: ObjectKey, pool: StockPool | None) -> None:
        """Delete the units of an earlier pool of this name, except claimed ones."""
        uid = None if pool is None else pool.metadata.uid
        for unit in units_of_pool(self.units, key):
            if OWNERSHIP.owner_uid(unit.metadata) != uid and claim_of(unit.metadata) is None:
                await self.orphans.remove(unit, "")

    def _faults(self, pool: StockPool) -> str:
        """Why the pool can have no units, "" if it can."""
        namespace, namespaces = pool.metadata.namespace, self.options.namespaces
        if not namespaces.is_stock(namespace):
            where = ", ".join(sorted(namespaces.stock))
            return f"namespace {namespace}: expected a stock namespace ({where}); create the pool there"
        return format_violations(spec_violations(pool.spec))

    async def _create(self, pool: StockPool, ctx: Context, plan: PoolPlan) -> tuple[StatusError | None, int]:
        """Create the units of the plan; returns why the server refused one, if it did, and the last serial number."""
        last = plan.last_serial - len(plan.create)
        for name in plan.create:
            try:
                await ctx.client.create(stock_unit(pool, name))
            except AlreadyExistsError:
                # The first attempt was stored although it seemed to fail; or another client took the name: then the
                # next run takes the next one.
                pass
            except REFUSALS as error:
                return error, last
            self.pace.spend(pool.key, 1)
            last = serial_of(pool, name)
        return None, last

    async def _update_status(self, pool: StockPool, ctx: Context, plan: PoolPlan) -> None:
        status = pool_status(pool, plan, self.now())
        if status is pool.status:
            return
        before = find_condition(pool.status.conditions, READY_CONDITION)
        await ctx.update_status(status)
        if before is None or before.reason != plan.reason:
            is_normal = plan.reason in _NORMAL
            ctx.record("Normal" if is_normal else "Warning", plan.reason, plan.message, action=_ACTION)


async def _take_back(ctx: Context, units: Sequence[GPUUnit], pool: StockPool) -> bool:
    """Give units their owner reference and label back; returns whether there were any."""
    for unit in units:
        meta = set_controller(unit.metadata, pool)
        owned = {
            "ownerReferences": [encode(reference) for reference in meta.owner_references],
            "labels": {POOL_LABEL: label_value(pool.metadata.name)},
        }
        patch = MergePatch({"metadata": owned}).locked(meta.resource_version)
        await ctx.client.patch(GPUUnit, meta.name, meta.namespace, patch)
    return bool(units)


async def _delete(ctx: Context, units: Sequence[GPUUnit]) -> None:
    for unit in units:
        meta = unit.metadata
        try:
            await ctx.client.delete(
                GPUUnit, meta.name, meta.namespace, uid=meta.uid, resource_version=meta.resource_version
            )
        except NotFoundError:
            continue
