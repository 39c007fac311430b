"""The GPUFunction reconciler: keeps workers, lets units join, and reports how many workers there are.

::

    units with a requestID that no function has ──> a function is made
              │
    spec valid? requestID its own? ── no ──> InvalidSpec: workers left alone; RequestIDTaken: workers deleted
              │ yes
    sidecars configured? NetworkPolicy in place? ── no ──> ServerlessNotConfigured, NetworkPolicySyncFailed
              │ yes
    units join and leave
              │
    serial numbers into the status ──> workers are created, old ones deleted ──> status

`desired.functions` decides what to do; this does it. Invocations are no concern of it: it never talks to NATS, and the
finalizer of a function's queue belongs to the activator.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Final

from attrs import evolve, field, frozen

from gpuruntime.api.gpufunction import GPUFunction, request_id_of
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import FUNCTION_LABEL, FUNCTION_REQUEST_ID, GROUP
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.api.reasons import (
    FAILED,
    FUNCTION_DELETING,
    FUNCTION_PROGRESSING,
    INVALID_SPEC,
    NETWORK_POLICY_SYNC_FAILED,
    READY_CONDITION,
    REQUEST_ID_TAKEN,
    SERVERLESS_NOT_CONFIGURED,
    UNIT_SYNC_FAILED,
    phase_of,
)
from gpuruntime.control import (
    Change,
    Context,
    Controller,
    ControllerOptions,
    Informer,
    Manager,
    Result,
    Store,
    WriteRefusedError,
    allow,
    any_of,
    generation_changed,
)
from gpuruntime.desired.functions.joining import holder
from gpuruntime.desired.functions.network_policy import function_of_policy, worker_policy
from gpuruntime.desired.functions.plan import (
    FunctionPlan,
    function_status,
    next_steps,
    reserved_status,
    without_workers,
)
from gpuruntime.desired.functions.workers import has_lost_ownership, worker_unit
from gpuruntime.desired.rendering import SidecarRendering
from gpuruntime.desired.validation import format_violations, spec_violations
from gpuruntime.kube import AlreadyExistsError, ConflictError, KubeError, MergePatch, NotFoundError, StatusError
from gpuruntime.kube.builtin.networking import NetworkPolicy
from gpuruntime.meta import ObjectKey, encode, find_condition, is_controlled_by, set_controller
from gpuruntime.reconcilers.child_sync_errors import REFUSED_SECONDS, child_sync_error
from gpuruntime.reconcilers.foreign_status import status_touched
from gpuruntime.reconcilers.gpufunction.figures import FunctionCollector
from gpuruntime.reconcilers.gpufunction.joining import Joining
from gpuruntime.reconcilers.orphans import OWNERSHIP, OrphanCollector, OrphanRemoval
from gpuruntime.reconcilers.refill_pace import Pace, RefillPace
from gpuruntime.service.invocations.functions import functions_with, watch_functions
from gpuruntime.service.objects.admission import REFUSALS, raise_if_rbac_denial
from gpuruntime.service.reads.informers import units_of_function, watch_units

__all__ = ["GPUFunctionOptions", "GPUFunctionReconciler", "install_gpufunction"]

_ACTION: Final = "Scale"
_TAKEN_SECONDS: Final = 1.0
_ADMISSION: Final = "asked for by the admission plugin OwnerReferencesPermissionEnforcement, not by a request"
_NOT_CONFIGURED: Final = (
    "The operator is not configured for workers. Set serverless.sidecarImage and serverless.activatorURL in the config"
    " of the controller manager."
)


@frozen
class GPUFunctionOptions:
    """How functions are reconciled.

    Args:
        namespaces: the namespaces of the product; functions are in those of active units.
        sidecar: what the operator decides about the sidecars of workers; None for no workers.
        pace: how fast a function creates workers.
        concurrency: how many functions are reconciled at a time.
        refused_seconds: after how many seconds an object that the server refused is retried.
    """

    namespaces: Namespaces = field(factory=Namespaces)
    sidecar: SidecarRendering | None = None
    pace: Pace = field(factory=Pace)
    concurrency: int = 4
    refused_seconds: float = REFUSED_SECONDS


def install_gpufunction(manager: Manager, options: GPUFunctionOptions | None = None) -> Controller[ObjectKey]:
    """Add the GPUFunction controller to a manager. Before it runs, and in a running loop."""
    chosen = options or GPUFunctionOptions()
    active = tuple(sorted(chosen.namespaces.instance))
    functions = watch_functions(manager.cache, chosen.namespaces)
    units = watch_units(manager.cache, chosen.namespaces.units)
    joining = Joining(units.store, functions.store)
    orphans = OrphanRemoval(manager.client, GPUFunction.KIND)
    pace = RefillPace(chosen.pace, asyncio.get_running_loop().time)
    reconciler = GPUFunctionReconciler(
        units.store, functions, joining, pace, orphans, chosen, now=manager.server_time.now
    )
    FunctionCollector(manager.observability.registry, functions.store)
    OrphanCollector(manager.observability.registry, orphans, "function", (GPUUnit.KIND,))
    return (
        manager.controller(
            functions,
            when=any_of(generation_changed(), status_touched),
            options=ControllerOptions(concurrency=chosen.concurrency),
            field_manager=GROUP,
        )
        .owns(NetworkPolicy, namespaces=active, trigger=_function_of_policy)
        .watches(functions, trigger=joining.siblings, when=_existence_changed)
        .watches(units, trigger=joining.concerned)
        .updates_status()
        .records_events()
        .permissions(
            allow(GPUFunction, "create", namespaces=active),
            allow(GPUUnit, "create", "patch", "delete", namespaces=active),
            allow(GPUFunction, "update", subresource="finalizers", namespaces=active, rare=_ADMISSION),
        )
        .reconcile_keys(reconciler.reconcile)
    )


def _function_of_policy(change: Change[Any]) -> Iterable[ObjectKey]:
    name = function_of_policy(change.key.name)
    return (ObjectKey(change.key.namespace, name),) if name else ()


def _existence_changed(change: Change[GPUFunction]) -> bool:
    """A predicate: a function appeared, began to go, or is gone."""
    return (change.before is None) != (change.after is None) or _is_going(change.before) != _is_going(change.after)


def _is_going(function: GPUFunction | None) -> bool:
    return function is not None and function.metadata.deletion_timestamp is not None


@frozen
class _Obstacle:
    """Why no worker may start, and after how many seconds to look again; None if only a change matters."""

    reason: str
    message: str
    seconds: float | None = None


@frozen
class GPUFunctionReconciler:
    """Creates and deletes workers as planned, and writes the status if it differs.

    Guarantees:
        - An unchanged function costs no write.
        - The serial number of a worker is in the status before the worker is created, by a write that fails if another
          process wrote first: two workers never get one name.
        - No pod of a worker starts before its NetworkPolicy is stored.
        - An invalid spec changes no worker. Of two functions with one requestID the older one has it; the other has no
          workers.
        - Units that joined are never deleted. Foreign objects are left alone, and named in the status.
        - A worker that lost its owner reference or its marks gets them back; if the function is gone, the worker is
          deleted.
        - A worker is deleted in the foreground: it is seen until its pod has drained.
        - What the server refuses is in the status, and retried after a while: quotas and policies change without a
          change of anything that is watched.
    """

    units: Store[GPUUnit]
    functions: Informer[GPUFunction]
    joining: Joining
    pace: RefillPace
    orphans: OrphanRemoval
    options: GPUFunctionOptions = field(factory=GPUFunctionOptions)
    now: Callable[[], datetime] = field(kw_only=True)

    async def reconcile(self, key: ObjectKey, ctx: Context) -> Result:
        """Reconcile one function, and the units that want one of this name."""
        function = self.functions.store.get(key)
        await self._delete_orphans(key, function)
        await self.joining.leave(key, ctx)
        again = Result.after(self.options.refused_seconds) if await self.joining.make(key, ctx) else Result.done()
        if function is None:
            self.pace.forget(key)
            return again
        result = await self._sync(function, ctx.of(function))
        return again if result == Result.done() else result

    async def _sync(self, function: GPUFunction, ctx: Context) -> Result:
        units = units_of_function(self.units, function.key)
        if await _take_back(ctx, [unit for unit in units if has_lost_ownership(unit, function)], function):
            return Result.done()  # the changed units bring a run that counts them
        owned = [unit for unit in units if is_controlled_by(unit.metadata, function)]
        joined = self.joining.joined(function)
        ends = self._end(function)
        if ends is None:
            return await self._scale(function, ctx, owned, joined)
        plan = without_workers(function, owned, joined, *ends)
        await _delete(ctx, plan.delete)
        await self._update_status(function, ctx, plan)
        return Result.done()

    async def _scale(
        self, function: GPUFunction, ctx: Context, owned: Sequence[GPUUnit], joined: Sequence[GPUUnit]
    ) -> Result:
        coming = self.joining.coming(function)
        obstacle = await self._obstacle(function, ctx, (*joined, *coming))
        now, allowance = self.now(), 0 if obstacle is not None else self.pace.allowance(function.key)
        plan = next_steps(function, owned, joined, now=now, allowance=allowance)
        if obstacle is not None:
            blocked = evolve(plan, reason=obstacle.reason, message=obstacle.message)
            await self._update_status(function, ctx, blocked)
            return Result.done() if obstacle.seconds is None else Result.after(obstacle.seconds)
        if coming:
            await self.joining.join(function, coming, ctx)
            return Result.done()  # the changed units bring a run that counts them
        return await self._carry_out(function, ctx, plan)

    def _end(self, function: GPUFunction) -> tuple[str, str] | None:
        """Why the function must have no workers: reason and message; None if it may have some."""
        meta, request_id = function.metadata, request_id_of(function)
        if meta.deletion_timestamp is not None:
            return FUNCTION_DELETING, "The function is being deleted. Its workers finish what they run."
        first = holder(functions_with(self.functions.store, meta.namespace, request_id))
        if first is None or first.metadata.uid == meta.uid:
            return None
        taken = f"Function {first.metadata.name}, which is older, has requestID {request_id}."
        return REQUEST_ID_TAKEN, f"{taken} Delete one of the two, or create this one with another requestID."

    async def _obstacle(self, function: GPUFunction, ctx: Context, joined: Sequence[GPUUnit]) -> _Obstacle | None:
        """Why no worker may start now, and no unit join; None if the NetworkPolicy of workers is in place.

        Without a configuration, a function that wants no workers is fine.
        """
        faults = format_violations(spec_violations(function.spec))
        if faults:
            return _Obstacle(INVALID_SPEC, faults)
        sidecar = self.options.sidecar
        if sidecar is None:
            is_wanted = function.spec.scaling.min_workers or joined
            return _Obstacle(SERVERLESS_NOT_CONFIGURED, _NOT_CONFIGURED) if is_wanted else None
        wanted = worker_policy(function, joined, sidecar.activator_url, self.options.namespaces.system)
        try:
            await ctx.apply(wanted)
        except (KubeError, WriteRefusedError) as error:
            failed = child_sync_error(error, "NetworkPolicy", NETWORK_POLICY_SYNC_FAILED, is_living=self._is_living)
            if failed is None or failed.seconds is None:
                raise
            return _Obstacle(failed.failure.reason or FUNCTION_PROGRESSING, failed.failure.message, failed.seconds)
        return None

    async def _carry_out(self, function: GPUFunction, ctx: Context, plan: FunctionPlan) -> Result:
        key, now = function.key, self.now()
        if plan.create:
            await ctx.update_status(reserved_status(function, plan, now))
        # The version of the function changed with the write.
        kept: GPUFunction = ctx.object
        refusal, is_taken = await self._create(kept, ctx, plan.create)
        await _delete(ctx, plan.delete)
        if refusal is not None:
            message = f"workers are refused: {refusal.message or refusal}"
            await self._update_status(kept, ctx, evolve(plan, reason=UNIT_SYNC_FAILED, message=message))
            return Result.after(self.options.refused_seconds)
        await self._update_status(kept, ctx, plan)
        if is_taken:
            return Result.after(_TAKEN_SECONDS)
        if plan.is_limited:
            return Result.after(self.pace.wait(key))
        return Result.done() if plan.retry_at is None else Result.after((plan.retry_at - now).total_seconds())

    async def _create(
        self, function: GPUFunction, ctx: Context, names: Iterable[str]
    ) -> tuple[StatusError | None, bool]:
        """Create workers; returns why the server refused one, if it did, and whether a name was taken."""
        is_taken = False
        for name in names:
            try:
                await ctx.client.create(worker_unit(function, name))
            except AlreadyExistsError:
                # Another client took the name, or an earlier function of this name; or the first attempt was stored
                # although it seemed to fail. The next run sees which, and takes the next number.
                is_taken = True
            except REFUSALS as error:
                raise_if_rbac_denial(error)
                return error, is_taken
            self.pace.spend(function.key, 1)
        return None, is_taken

    async def _delete_orphans(self, key: ObjectKey, function: GPUFunction | None) -> None:
        """Delete the workers of an earlier function of this name that the garbage collector does not delete."""
        uid = None if function is None else function.metadata.uid
        for unit in units_of_function(self.units, key):
            owner = OWNERSHIP.owner_uid(unit.metadata)
            if owner and owner != uid:
                await self.orphans.remove(unit, "")

    async def _update_status(self, function: GPUFunction, ctx: Context, plan: FunctionPlan) -> None:
        status = function_status(function, plan, self.now())
        if status is function.status:
            return
        before = find_condition(function.status.conditions, READY_CONDITION)
        try:
            await ctx.update_status(status)
        except NotFoundError:
            return  # the function was deleted meanwhile
        if before is None or before.reason != plan.reason:
            is_bad = phase_of(plan.reason) == FAILED
            ctx.record("Warning" if is_bad else "Normal", plan.reason, plan.message, action=_ACTION)

    def _is_living(self, namespace: str, uid: str) -> bool:
        store = self.functions.store
        return any(key.namespace == namespace and (store.version_of(key) or ("",))[0] == uid for key in store)


async def _take_back(ctx: Context, units: Sequence[GPUUnit], function: GPUFunction) -> bool:
    """Give workers their owner reference and marks back; returns whether there were any."""
    for unit in units:
        meta = set_controller(unit.metadata, function)
        owned = {
            "ownerReferences": [encode(reference) for reference in meta.owner_references],
            "labels": {FUNCTION_LABEL: function.metadata.name},
            "annotations": {FUNCTION_REQUEST_ID: request_id_of(function)},
        }
        patch = MergePatch({"metadata": owned}).locked(meta.resource_version)
        await ctx.client.patch(GPUUnit, meta.name, meta.namespace, patch)
    return bool(units)


async def _delete(ctx: Context, units: Sequence[GPUUnit]) -> None:
    """Delete workers in the state in which they were read: one that changed since brings a run of its own."""
    for unit in units:
        meta = unit.metadata
        try:
            await ctx.client.delete(
                GPUUnit,
                meta.name,
                meta.namespace,
                uid=meta.uid,
                resource_version=meta.resource_version,
                propagation="Foreground",
            )
        except (NotFoundError, ConflictError):
            continue
