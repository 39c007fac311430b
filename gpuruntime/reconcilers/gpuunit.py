"""The GPUUnit reconciler: a Deployment and perhaps a Service for each unit, and a status that says how it is.

::

    spec ── makes sense? ── no ──> InvalidSpec, children left alone
              │ yes
    Deployment, Service ── refused? ── yes ──> DeploymentSyncFailed, ServiceSyncFailed, ForeignObject
              │ no
    Deployment, pods, nodes ── rolled out? ── no ──> the reason why not
              │ yes
            Ready

One controller serves both roles; which one a unit has follows from its namespace. The children of a deleted unit go
with their owner; those that have lost their owner reference are orphans, and removed.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime
from typing import Any, Final, Generic, TypeVar

from attrs import field, frozen

from gpuruntime.api.gpuunit import GPUUnit, GPUUnitStatus
from gpuruntime.api.names import GROUP, OPERATION_ID
from gpuruntime.api.reasons import (
    DEPLOYMENT_SYNC_FAILED,
    FAILED,
    INVALID_SPEC,
    SERVICE_SYNC_FAILED,
    UNSCHEDULABLE,
    phase_of,
)
from gpuruntime.control import (
    Controller,
    ControllerOptions,
    Declaration,
    Manager,
    QuarantinedError,
    Recorder,
    Result,
    RunInfo,
    Store,
    Writer,
    WriteRefusedError,
    add_log_fields,
    allow,
    allow_children,
    allow_events,
    allow_status,
    write_status,
)
from gpuruntime.desired.problems import told
from gpuruntime.desired.rendering import Rendering
from gpuruntime.desired.unit_names import child_name
from gpuruntime.kube import Client, KubeError, NotFoundError, dynamic
from gpuruntime.kube.builtin.apps import Deployment
from gpuruntime.kube.builtin.core import Service
from gpuruntime.meta import DynamicObject, ObjectKey, TypedObject, encode
from gpuruntime.reconcilers.orphans import OWNERSHIP, OrphanCollector, OrphanRemoval
from gpuruntime.reconcilers.stage_metrics import StageCollector, StageTimes
from gpuruntime.reconcilers.unit_caches import UnitCaches
from gpuruntime.reconcilers.unit_children import certain_unit
from gpuruntime.reconcilers.unit_hindrances import Obstacle, obstacle
from gpuruntime.reconcilers.unit_renderings import UnitRendering, UnitRenderings
from gpuruntime.reconcilers.unit_status import Findings, Hindrance, can_wait, transition, unit_status
from gpuruntime.reconcilers.unreadable_units import status_of, unreadable_status

__all__ = ["GPUUnitOptions", "GPUUnitReconciler", "install_gpuunit"]

_LOG = logging.getLogger(__name__)
W = TypeVar("W", bound=TypedObject)
_ACTION: Final = "Reconcile"
_UNREADABLE: Final = "used when a unit was stored that this version cannot read"
_ORPHANED: Final = "used when a Deployment outlived its unit"
_CHANGED_ROLE: Final = "used when a namespace of active units becomes one for stock"


@frozen
class GPUUnitOptions:
    """How units are reconciled: what the operator decides about their children, which
    namespaces it works in, and how many are reconciled at a time.
    """

    rendering: Rendering = field(factory=Rendering)
    concurrency: int = 8


def install_gpuunit(manager: Manager, options: GPUUnitOptions | None = None) -> Controller[ObjectKey]:
    """Have a manager reconcile GPUUnits. Before it runs."""
    chosen = options or GPUUnitOptions()
    caches = UnitCaches.of(manager.cache, chosen.rendering.namespaces.units)
    writer, renderings = Writer(manager.client, field_manager=GROUP), UnitRenderings(chosen.rendering)
    orphans = OrphanRemoval(manager.client, GPUUnit.KIND)
    reconciler = GPUUnitReconciler(
        caches, manager.client, writer, manager.recorder, renderings, orphans, now=manager.server_time.now
    )
    StageCollector(manager.observability.registry, reconciler.stages)
    OrphanCollector(manager.observability.registry, orphans, "unit", (Deployment.KIND, Service.KIND))
    manager.declare(
        allow_children(Deployment, of=GPUUnit),
        allow(Deployment, "delete", rare=_ORPHANED),
        *_serving(chosen),
        allow_status(GPUUnit),
        allow(GPUUnit, "get", rare=_UNREADABLE),
        allow_events(GPUUnit),
    )
    workers = ControllerOptions(concurrency=chosen.concurrency)
    return manager.add_controller("gpuunit", reconciler, caches.sources(), workers)


def _serving(options: GPUUnitOptions) -> Iterator[Declaration]:
    """What is done to Services: none is made for stock."""
    namespaces = options.rendering.namespaces
    active, stock = tuple(sorted(namespaces.instance)), tuple(sorted(namespaces.stock))
    if active or not stock:
        yield allow_children(Service, of=GPUUnit, namespaces=active)
        yield allow(Service, "delete", namespaces=active)
    if stock:
        yield allow(Service, "get", "delete", namespaces=stock, rare=_CHANGED_ROLE)


@frozen
class _Attempt(Generic[W]):
    """What came of bringing a child in line: the child, None if there is none of ours, and what was in the way."""

    child: W | None
    obstacle: Obstacle | None = None
    error: Exception | None = None


@frozen
class GPUUnitReconciler:
    """Brings the children of a unit in line with its spec, and its status in line with them.

    Guarantees:
        - An unchanged unit costs no write.
        - A spec that makes no sense changes no child.
        - What is not the unit's own is left alone, and named: its own is what carries its UID in an annotation.
        - What is its own goes with it, also without owner references and labels.
        - A unit that was stored under other rules and cannot be read is told so; its children are left alone.
        - A pod template that was rendered for this spec stays, whatever the operator of today would render.
        - A Service is looked after even if the Deployment is refused.
        - An event is recorded for each transition of the Ready condition, when the status that tells of it is written.
    """

    caches: UnitCaches
    client: Client
    writer: Writer
    recorder: Recorder
    renderings: UnitRenderings
    orphans: OrphanRemoval
    stages: StageTimes = field(factory=StageTimes)
    now: Callable[[], datetime] = field(kw_only=True)

    async def reconcile(self, key: ObjectKey, _context: RunInfo) -> Result:
        """See `Reconciler`."""
        try:
            unit = self.caches.units.store.get(key)
        except QuarantinedError as error:
            await self._tell_unreadable(key, str(error))
            return Result.done()
        await self._remove_orphans(key, unit)
        if unit is None or unit.metadata.deletion_timestamp is not None:
            self.stages.forget(key)
            return Result.done()
        child = ObjectKey(key.namespace, child_name(key.name))
        own_deployment = _own(self.caches.deployments.store, child, unit)
        own_service = _own(self.caches.services.store, child, unit)
        if OPERATION_ID in unit.metadata.annotations:
            add_log_fields(operation_id=unit.metadata.annotations[OPERATION_ID])
        rendered = self.renderings.of(unit)
        if rendered.problems:
            invalid = Hindrance(told(rendered.problems), INVALID_SPEC)
            await self._tell(unit, own_deployment, own_service, unit.status.access_url, invalid)
            return Result.done()
        deployment = await self._attempt(
            self._sync_deployment(unit, child, rendered), own_deployment, "Deployment", DEPLOYMENT_SYNC_FAILED
        )
        service = await self._attempt(
            self._sync_service(unit, child, rendered), own_service, "Service", SERVICE_SYNC_FAILED
        )
        met = deployment.obstacle or service.obstacle
        hindrance, url = (None, rendered.url) if met is None else (met.hindrance, unit.status.access_url)
        later = await self._tell(unit, deployment.child, service.child, url, hindrance)
        return _next(later, deployment, service)

    async def _remove_orphans(self, key: ObjectKey, unit: GPUUnit | None) -> None:
        """Remove what an earlier unit of this name made and what outlived it."""
        uid = None if unit is None else unit.metadata.uid
        for child in tuple(self.caches.children_of(key)):
            owner = OWNERSHIP.owner_uid(child.metadata)
            if owner != uid and not self.caches.is_living(key.namespace, owner):
                await self.orphans.remove(child, certain_unit(child.metadata))

    async def _sync_deployment(self, unit: GPUUnit, key: ObjectKey, rendered: UnitRendering) -> Deployment:
        live = self.caches.deployments.store.get(key)
        own = _own(self.caches.deployments.store, key, unit)
        return (await self.writer.ensure(rendered.deployment(own), unit, live=live)).object

    async def _sync_service(self, unit: GPUUnit, key: ObjectKey, rendered: UnitRendering) -> Service | None:
        if rendered.service is not None:
            live = self.caches.services.store.get(key)
            return (await self.writer.ensure(rendered.service, unit, live=live)).object
        superfluous = _own(self.caches.services.store, key, unit)
        if superfluous is not None:
            await self.writer.remove(superfluous, unit)
        return None

    async def _attempt(self, work: Awaitable[W | None], known: W | None, kind: str, reason: str) -> _Attempt[W]:
        """The outcome of bringing a child in line; `known` is the child as it was before."""
        try:
            return _Attempt(await work)
        except (KubeError, WriteRefusedError) as error:
            met = obstacle(error, kind, reason, is_living=self.caches.is_living)
            if met is None:
                raise
            return _Attempt(known, met, error)

    async def _tell(
        self,
        unit: GPUUnit,
        deployment: Deployment | None,
        service: Service | None,
        url: str | None,
        hindrance: Hindrance | None,
    ) -> float:
        """Bring the status in line; gives the seconds after which that is to be done, 0 if it is done."""
        pods = self.caches.pods_of(unit.key)
        findings = Findings(
            deployment=deployment,
            pods=pods,
            nodes=self.caches.nodes_of(pods),
            service_name=None if service is None else service.metadata.name,
            access_url=None if service is None else url,
            hindrance=hindrance,
        )
        role = self.renderings.rendering.namespaces.role_of(unit.metadata.namespace)
        now = self.now()
        status = unit_status(unit, findings, is_stock=role == "stock", now=now)
        later = can_wait(unit.status, status, now) if status is not unit.status else 0.0
        try:
            if not later and await write_status(self.client, unit, status) is not None:
                self._record(unit, unit.status, status)
                self.stages.told(unit, status, role)
        except NotFoundError:
            return 0.0  # the unit was deleted meanwhile: there is nobody to tell
        return later

    async def _tell_unreadable(self, key: ObjectKey, fault: str) -> None:
        """Say of a unit that it cannot be read; a readable one that came meanwhile brings a run of its own."""
        try:
            stored = await self.client.get(dynamic(GPUUnit.KIND), key.name, key.namespace)
            status = unreadable_status(stored, fault, self.now())
            if await write_status(self.client, stored, encode(status)) is not None:
                self._record(stored, status_of(stored), status)
        except NotFoundError:
            pass  # the unit was deleted meanwhile: there is nobody to tell

    def _record(self, unit: GPUUnit | DynamicObject, before: GPUUnitStatus, status: GPUUnitStatus) -> None:
        news = transition(before, status)
        if news is not None:
            _LOG.info("unit told otherwise", extra={"phase": phase_of(news.reason), "reason": news.reason})
            is_bad = phase_of(news.reason) == FAILED or news.reason == UNSCHEDULABLE
            self.recorder.record(unit, "Warning" if is_bad else "Normal", news.reason, _ACTION, news.message or "")


def _own(store: Store[W], key: ObjectKey, unit: GPUUnit) -> W | None:
    known = store.get(key)
    return known if known is not None and OWNERSHIP.owner_uid(known.metadata) == unit.metadata.uid else None


def _next(later: float, *attempts: _Attempt[Any]) -> Result:
    """When to look again. An error without a time of its own is raised, and tried again with backoff."""
    waits = [later] if later else []
    for attempt in attempts:
        if attempt.obstacle is not None and attempt.obstacle.seconds is not None:
            waits.append(attempt.obstacle.seconds)
        elif attempt.error is not None:
            raise attempt.error
    return Result.after(min(waits)) if waits else Result.done()
