"""The GPUUnit reconciler: a Deployment and possibly a Service for each unit, and a status that says how it is.

::

    spec ── valid? ── no ──> InvalidSpec, children left alone
              │ yes
    worker ── configured, and of a function? ── no ──> ServerlessNotConfigured, or it waits; children left alone
              │ yes
    storages ── mountable, and locked? ── no ──> StorageNotReady, StorageInUse, Deployment left alone: see `mounts`
              │ yes
    Deployment, Service ── refused? ── yes ──> DeploymentSyncFailed, ServiceSyncFailed, ForeignObject
              │ no
    Deployment, pods, probes, nodes ── rolled out, and stays up? ── no ──> the reason why not
              │ yes
            Ready

One controller serves both roles; the namespace of a unit decides. The garbage collector deletes the children of a
deleted unit; those that have lost their owner reference are orphans, which this reconciler deletes.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, Final, Generic, TypeVar

from attrs import field, frozen

from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.api.gpuunit import GPUUnit, GPUUnitStatus
from gpuruntime.api.names import GROUP, OPERATION_ID
from gpuruntime.api.reasons import (
    DEPLOYMENT_SYNC_FAILED,
    FAILED,
    INVALID_SPEC,
    SERVICE_SYNC_FAILED,
    STORAGE_IN_USE,
    STORAGE_NOT_READY,
    UNSCHEDULABLE,
    phase_of,
)
from gpuruntime.control import (
    Context,
    Controller,
    ControllerOptions,
    Declaration,
    Manager,
    QuarantinedError,
    Result,
    Store,
    Timer,
    WriteRefusedError,
    add_log_fields,
    allow,
    allow_children,
    annotations_changed,
    any_of,
    generation_changed,
)
from gpuruntime.desired.rendering import Rendering
from gpuruntime.desired.units.names import child_name
from gpuruntime.desired.validation import format_violations
from gpuruntime.kube import KubeError, NotFoundError, dynamic
from gpuruntime.kube.builtin.apps import Deployment, ReplicaSet
from gpuruntime.kube.builtin.core import Service
from gpuruntime.kube.builtin.events import Event
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.meta import ObjectKey, TypedObject, encode
from gpuruntime.reconcilers.child_sync_errors import ChildSyncError, child_sync_error
from gpuruntime.reconcilers.foreign_status import status_touched
from gpuruntime.reconcilers.gpuunit.caches import UnitCaches, storage_changed, summary_changed
from gpuruntime.reconcilers.gpuunit.children import certain_unit, units_of_child
from gpuruntime.reconcilers.gpuunit.handoff import Handoff
from gpuruntime.reconcilers.gpuunit.mounts import UnitMounts
from gpuruntime.reconcilers.gpuunit.probe_failures import ProbeAnswers, ProbeFailures
from gpuruntime.reconcilers.gpuunit.renderings import UnitRendering, UnitRenderings, pins_of
from gpuruntime.reconcilers.gpuunit.room import give_room
from gpuruntime.reconcilers.gpuunit.stage_metrics import StageCollector, StageTimes
from gpuruntime.reconcilers.gpuunit.status import Findings, SyncFailure, can_wait, judge, transition
from gpuruntime.reconcilers.gpuunit.unreadable import status_of, unreadable_status
from gpuruntime.reconcilers.orphans import OWNERSHIP, OrphanCollector, OrphanRemoval
from gpuruntime.reconcilers.unit_turns import UnitTurns

__all__ = ["GPUUnitOptions", "GPUUnitReconciler", "install_gpuunit"]

_LOG = logging.getLogger(__name__)
W = TypeVar("W", bound=TypedObject)
_WAITING: Final = frozenset({UNSCHEDULABLE, STORAGE_NOT_READY, STORAGE_IN_USE})
_UNREADABLE: Final = "used when a unit was stored that this version cannot decode"
_UNREADABLE_SECONDS: Final = 10.0
_FULL: Final = "used when a unit is claimed and no node has room for it before the stock pod ends"
_ORPHANED: Final = "used when a Deployment outlived its unit"
_UNHEALTHY: Final = "used when a readiness probe fails"
_MOUNTED: Final = "used when a unit mounts a storage"
_CHANGED_ROLE: Final = "used when a namespace of active units becomes one for stock"


@frozen
class GPUUnitOptions:
    """How units are reconciled.

    Args:
        rendering: what the operator decides about children, and the namespaces of the product.
        concurrency: how many units are reconciled at a time.
        turns: those that the lock reaper of this process takes too.
    """

    rendering: Rendering = field(factory=Rendering)
    concurrency: int = 8
    turns: UnitTurns = field(factory=UnitTurns)


def install_gpuunit(manager: Manager, options: GPUUnitOptions | None = None) -> Controller[ObjectKey]:
    """Add the GPUUnit controller to a manager. Before it runs."""
    chosen = options or GPUUnitOptions()
    caches = UnitCaches.of(manager.cache, chosen.rendering.namespaces.units, _active(chosen))
    orphans = OrphanRemoval(manager.client, GPUUnit.KIND)
    probes = ProbeFailures(manager.client, time.monotonic)
    now = manager.server_time.now
    reconciler = GPUUnitReconciler(
        caches, UnitRenderings(chosen.rendering), orphans, probes, UnitMounts(caches, now), chosen.turns, now=now
    )
    StageCollector(manager.observability.registry, reconciler.stages)
    OrphanCollector(manager.observability.registry, orphans, "unit", (Deployment.KIND, Service.KIND))
    return (
        manager.controller(
            caches.units,
            # Not by the status, as long as this reconciler writes it.
            when=any_of(generation_changed(), annotations_changed(), status_touched),
            options=ControllerOptions(concurrency=chosen.concurrency),
            field_manager=GROUP,
        )
        .owns(caches.deployments, trigger=units_of_child)
        .owns(caches.services, trigger=units_of_child, deletes=True, permissions=_service_permissions(chosen))
        .watches(caches.pods, trigger=caches.units_of_pod, when=summary_changed)
        .watches(caches.nodes, trigger=caches.units_on_node, when=summary_changed)
        .watches(caches.storages, trigger=caches.units_of_storage, when=storage_changed)
        # No change reports what cannot be decoded.
        .source(Timer(_UNREADABLE_SECONDS, caches.unreadable, "unreadable units", (caches.units,)))
        .updates_status()
        .records_events()
        .permissions(
            allow(Deployment, "delete", rare=_ORPHANED),
            allow(GPUStorage, "get", "patch", namespaces=_active(chosen), rare=_MOUNTED),
            allow(Deployment, "get", namespaces=_active(chosen), rare=_MOUNTED),
            allow(ReplicaSet, "list", namespaces=_active(chosen), rare=_MOUNTED),
            allow(GPUUnit, "get", rare=f"{_UNREADABLE}, or a unit mounts a storage"),
            allow(Pod, "patch", subresource="status", namespaces=_active(chosen), rare=_FULL),
            allow(GPUUnit, "delete", namespaces=_stock(chosen), rare=_FULL),
            allow(Event, "list", namespaces=chosen.rendering.namespaces.units, rare=_UNHEALTHY),
        )
        .reconcile_keys(reconciler.reconcile)
    )


def _service_permissions(options: GPUUnitOptions) -> tuple[Declaration, ...]:
    """Services are created for active units only; those of stock are deleted."""
    active, stock = _active(options), _stock(options)
    declared: list[Declaration] = []
    if active or not stock:
        declared += [
            allow_children(Service, of=GPUUnit, namespaces=active),
            allow(Service, "delete", namespaces=active),
        ]
    if stock:
        declared.append(allow(Service, "get", "delete", namespaces=stock, rare=_CHANGED_ROLE))
    return tuple(declared)


def _active(options: GPUUnitOptions) -> tuple[str, ...]:
    return tuple(sorted(options.rendering.namespaces.instance))


def _stock(options: GPUUnitOptions) -> tuple[str, ...]:
    return tuple(sorted(options.rendering.namespaces.stock))


@frozen
class _Synced(Generic[W]):
    """The outcome of syncing a child: the child, None if there is none of ours, and what went wrong."""

    child: W | None
    failed: ChildSyncError | None = None
    error: Exception | None = None


@frozen
class GPUUnitReconciler:
    """Syncs the children of a unit with its spec, and its status with them.

    Guarantees:
        - An unchanged unit costs no write.
        - An invalid spec changes no child.
        - Foreign objects are left alone, and named in the status: a child of ours has the unit's UID in an annotation.
        - Children go with their unit, also those without owner references and labels.
        - The status of a unit that cannot be decoded says so; its children are left alone.
        - The pod of a claimed unit preempts nothing: see `handoff`.
        - A unit is Ready when it stays up, not when it has started: see `uptime`.
        - A pod template that was rendered for this spec stays, whatever a later operator version would render.
        - The Service is synced even if the Deployment is refused, or waits for storages.
        - A Deployment that mounts storages is written only under their locks: see `mounts`.
        - Each transition of the Ready condition is recorded as an event, when its status is written.
    """

    caches: UnitCaches
    renderings: UnitRenderings
    orphans: OrphanRemoval
    probes: ProbeFailures
    mounts: UnitMounts
    turns: UnitTurns = field(factory=UnitTurns)
    stages: StageTimes = field(factory=StageTimes)
    now: Callable[[], datetime] = field(kw_only=True)

    async def reconcile(self, key: ObjectKey, ctx: Context) -> Result:
        """Reconcile one unit."""
        try:
            unit = self.caches.units.store.get(key)
        except QuarantinedError as error:
            await self._report_unreadable(key, ctx, str(error))
            return Result.done()
        await self._delete_orphans(key, unit)
        if unit is None or unit.metadata.deletion_timestamp is not None:
            self.stages.forget(key)
            return Result.done()
        if not self._has_storages(unit):
            return await self._sync(unit, ctx.of(unit))
        async with self.turns.of(key):
            return await self._sync(unit, ctx.of(unit))

    async def _sync(self, unit: GPUUnit, ctx: Context) -> Result:
        child = ObjectKey(unit.metadata.namespace, child_name(unit.metadata.name))
        own_deployment = _own(self.caches.deployments.store, child, unit)
        own_service = _own(self.caches.services.store, child, unit)
        if OPERATION_ID in unit.metadata.annotations:
            add_log_fields(operation_id=unit.metadata.annotations[OPERATION_ID])
        rendered = self.renderings.of(unit)
        obstacle = rendered.obstacle
        if rendered.violations:
            obstacle = SyncFailure(format_violations(rendered.violations), INVALID_SPEC)
        if obstacle is not None:
            await self._update_status(unit, ctx, own_deployment, own_service, unit.status.access_url, obstacle)
            return Result.done()
        handoff = self._handoff(unit, own_deployment)
        deployment = await self._synced_deployment(unit, ctx, rendered, own_deployment, handoff)
        has_pod_changed = await give_room(ctx.client, self.caches, unit, handoff)
        service = await self._synced(
            _sync_service(ctx, rendered, own_service), own_service, "Service", SERVICE_SYNC_FAILED
        )
        failed = deployment.failed or service.failed
        if has_pod_changed and failed is None:
            return Result.done()  # the changed pod brings a run that writes the status
        failure, url = (None, rendered.url) if failed is None else (failed.failure, unit.status.access_url)
        later = await self._update_status(unit, ctx, deployment.child, service.child, url, failure)
        waits = [later, handoff.seconds_left if handoff.pod is not None else 0.0]
        return _next([seconds for seconds in waits if seconds], deployment, service)

    def _has_storages(self, unit: GPUUnit) -> bool:
        is_stock = self.renderings.rendering.namespaces.is_stock(unit.metadata.namespace)
        return bool(unit.spec.storage_mounts) and not is_stock

    async def _synced_deployment(
        self, unit: GPUUnit, ctx: Context, rendered: UnitRendering, own: Deployment | None, handoff: Handoff
    ) -> _Synced[Deployment]:
        wanted = self._deployment(rendered, own, handoff)
        if self._has_storages(unit):
            is_live = own is None or pins_of(own) != pins_of(wanted)
            fault = await self.mounts.fault(ctx.client, unit, is_live=is_live, is_new=own is None)
            if fault is not None:
                return _Synced(own, ChildSyncError(fault.failure, fault.seconds))
        return await self._synced(_apply(ctx, wanted), own, "Deployment", DEPLOYMENT_SYNC_FAILED)

    def _handoff(self, unit: GPUUnit, own: Deployment | None) -> Handoff:
        """The hand-off of a unit; that of a stock unit is over."""
        if self.renderings.rendering.namespaces.is_stock(unit.metadata.namespace):
            return Handoff()
        return Handoff.of(self.caches.stock_of(unit), own, self.caches.pods_of(unit.key), self.now())

    def _deployment(self, rendered: UnitRendering, own: Deployment | None, handoff: Handoff) -> Deployment:
        claimed = self.renderings.rendering.claimed_priority_class
        if handoff.is_stranded(own, claimed):
            return rendered.deployment(None)
        return rendered.deployment(own, priority_class=claimed if handoff.is_under_way else "")

    async def _delete_orphans(self, key: ObjectKey, unit: GPUUnit | None) -> None:
        """Delete children of an earlier unit of this name."""
        uid = None if unit is None else unit.metadata.uid
        for child in tuple(self.caches.children_of(key)):
            owner = OWNERSHIP.owner_uid(child.metadata)
            if owner != uid and not self.caches.is_living(key.namespace, owner):
                await self.orphans.remove(child, certain_unit(child.metadata))

    async def _synced(self, work: Awaitable[W | None], known: W | None, kind: str, reason: str) -> _Synced[W]:
        """The outcome of syncing a child; `known` is the child as it was before."""
        try:
            return _Synced(await work)
        except (KubeError, WriteRefusedError) as error:
            failed = child_sync_error(error, kind, reason, is_living=self.caches.is_living)
            if failed is None:
                raise
            return _Synced(known, failed, error)

    async def _update_status(
        self,
        unit: GPUUnit,
        ctx: Context,
        deployment: Deployment | None,
        service: Service | None,
        url: str | None,
        failure: SyncFailure | None,
    ) -> float:
        """Write the status if it differs; returns the seconds after which to look again, 0 if only a change matters."""
        now, pods = self.now(), self.caches.pods_of(unit.key)
        is_probed = unit.spec.template.readiness_probe is not None
        probes = await self.probes.answers(unit.metadata.namespace, pods, now) if is_probed else ProbeAnswers()
        findings = Findings(
            deployment=deployment,
            pods=pods,
            nodes=self.caches.nodes_of(pods),
            answers=probes.by_pod,
            service_name=None if service is None else service.metadata.name,
            access_url=None if service is None else url,
            failure=failure,
        )
        role = self.renderings.rendering.namespaces.role_of(unit.metadata.namespace)
        verdict = judge(unit, findings, is_stock=role == "stock", now=now)
        status = verdict.status
        later = can_wait(unit.status, status, now) if status is not unit.status else 0.0
        try:
            if not later and await ctx.update_status(status):
                _record(ctx, unit.status, status)
                self.stages.status_written(unit, status, role)
        except NotFoundError:
            return 0.0  # the unit was deleted meanwhile
        return min(filter(None, (later, verdict.recheck_seconds, probes.recheck_seconds)), default=0.0)

    async def _report_unreadable(self, key: ObjectKey, ctx: Context, fault: str) -> None:
        """Write into the status that a unit cannot be decoded; one that is decodable by now brings a run of its own."""
        try:
            stored = await ctx.client.get(dynamic(GPUUnit.KIND), key.name, key.namespace)
            status = unreadable_status(stored, fault, self.now())
            ctx = ctx.of(stored)
            if await ctx.update_status(encode(status)):
                _record(ctx, status_of(stored), status)
        except NotFoundError:
            pass  # the unit was deleted meanwhile


async def _apply(ctx: Context, deployment: Deployment) -> Deployment:
    return (await ctx.apply(deployment)).object


async def _sync_service(ctx: Context, rendered: UnitRendering, own: Service | None) -> Service | None:
    if rendered.service is not None:
        return (await ctx.apply(rendered.service)).object
    if own is not None:
        await ctx.delete(own)
    return None


def _record(ctx: Context, before: GPUUnitStatus, status: GPUUnitStatus) -> None:
    changed = transition(before, status)
    if changed is not None:
        phase = phase_of(changed.reason)
        _LOG.info("unit status changed", extra={"phase": phase, "reason": changed.reason})
        is_bad = phase == FAILED or changed.reason in _WAITING
        ctx.record("Warning" if is_bad else "Normal", changed.reason, changed.message or "")


def _own(store: Store[W], key: ObjectKey, unit: GPUUnit) -> W | None:
    known = store.get(key)
    return known if known is not None and OWNERSHIP.owner_uid(known.metadata) == unit.metadata.uid else None


def _next(seconds: Sequence[float], *children: _Synced[Any]) -> Result:
    """When to reconcile again. An error without a time of its own is raised, and retried with backoff."""
    waits = list(seconds)
    for child in children:
        if child.failed is not None and child.failed.seconds is not None:
            waits.append(child.failed.seconds)
        elif child.error is not None:
            raise child.error
    return Result.after(min(waits)) if waits else Result.done()
