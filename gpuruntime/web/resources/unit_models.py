"""Bodies, queries and views of units. Bodies have the validation rules of the custom resource."""

from collections.abc import Callable
from typing import Annotated, Final

from attrs import field, frozen

from gpuruntime.api.envelope import Cpu, GpuType, Image, Memory, SpecName
from gpuruntime.api.gpuunit import GPUUnit, UnitAccess, UnitStages
from gpuruntime.api.names import POOL_LABEL
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.api.placement import PullSecret
from gpuruntime.api.security_profile import BASELINE, SecurityProfile
from gpuruntime.api.unit_template import UnitTemplate
from gpuruntime.desired.provenance import claim_of, provenance_of
from gpuruntime.desired.units.security_context import profile_of
from gpuruntime.meta import (
    EMPTY,
    FrozenDict,
    Items,
    Length,
    MapOf,
    Pattern,
    Properties,
    Range,
    Struct,
    encode,
    freeze,
    wire,
)
from gpuruntime.schema import Violation
from gpuruntime.service.objects.update import UpdateObject
from gpuruntime.service.stock.seed import Envelope
from gpuruntime.service.units.create import CreateUnit
from gpuruntime.web.resources.object_models import (
    ListFilter,
    ListQuery,
    Name,
    Namespace,
    ObjectView,
    object_fields,
)

__all__ = [
    "CreateUnitBody",
    "UnitNamespaceQuery",
    "UnitQuery",
    "UnitView",
    "UnitWaitQuery",
    "UnitWatchQuery",
    "UnitsQuery",
    "UpdateUnitBody",
    "WaitQuery",
    "deleted_unit_view",
    "unit_filter",
    "unit_view",
]

_ACTIVE: Final = "instance"
_STOCK: Final = "stock"
_ENVELOPE: Final = ("cpu", "memory", "gpu", "gpuType")
_Version = Annotated[str | None, Pattern("^[1-9][0-9]{0,39}$")]
_Timeout = Annotated[int, Range(minimum=0, maximum=600)]


@frozen
class CreateUnitBody(Struct):
    """An active unit: on the capacity of a ready stock unit of the flavour or, with coldStart, with an envelope of its
    own.
    """

    name: Name
    """Name of the unit."""
    spec_name: SpecName
    """Name of the flavour, such as g1.1. The oldest ready stock unit of it is claimed."""
    image: Annotated[str, Length(minimum=1, maximum=1024), Pattern("^[!-~]+$")]
    """Container image."""
    namespace: Namespace | None = None
    """Namespace of the unit; not a stock namespace. Defaults to the first namespace of active units."""
    stock_namespace: Namespace | None = None
    """Namespace to claim stock from. Defaults to the first stock namespace."""
    template: UnitTemplate = field(default=UnitTemplate())
    access: UnitAccess = field(default=UnitAccess())
    image_pull_secrets: Annotated[tuple[PullSecret, ...], MapOf("name"), Items(maximum=16)] = ()
    """Secrets with the credentials for the image's registry."""
    security_profile: SecurityProfile = BASELINE
    """Baseline or Restricted. A Restricted unit is admitted in namespaces that enforce Pod Security `restricted`; its
    image must name its user by a number other than 0."""
    labels: Annotated[FrozenDict[str, str], Properties(maximum=64)] = EMPTY
    """Labels of the unit, for label selectors."""
    cold_start: bool = False
    """Create the unit without stock, with the envelope in this request."""
    cpu: Cpu = None
    """CPUs of the unit; only with coldStart."""
    memory: Memory = None
    """Memory of the unit; only with coldStart."""
    gpu: Annotated[int | None, Range(minimum=0, maximum=1024)] = None
    """GPUs of the unit; only with coldStart."""
    gpu_type: GpuType = None
    """Model of the GPUs; only with coldStart."""

    def problems(self) -> tuple[Violation, ...]:
        """Fields that contradict each other: an envelope in a request that claims stock."""
        given = {} if self.cold_start else encode(self)
        extra = (name for name in _ENVELOPE if given.get(name) is not None)
        return tuple(Violation(name, "none without coldStart, the stock unit defines it") for name in extra)

    def request(self, namespaces: Namespaces) -> CreateUnit:
        """The request to the service; `namespaces` are the defaults."""
        envelope = Envelope(self.spec_name, cpu=self.cpu, memory=self.memory, gpu=self.gpu or 0, gpu_type=self.gpu_type)
        return CreateUnit(
            self.name,
            self.spec_name,
            self.image,
            namespace=self.namespace or namespaces.default_instance,
            stock_namespace=self.stock_namespace or namespaces.default_stock,
            template=self.template,
            access=self.access,
            image_pull_secrets=self.image_pull_secrets,
            security_profile=self.security_profile,
            labels=self.labels,
            cold_start=self.cold_start,
            envelope=envelope if self.cold_start else None,
        )


@frozen
class UpdateUnitBody(Struct):
    """The fields to change, as a merge patch: omitted fields keep their values, inside template and access too; null
    removes a value; lists and labels are replaced as a whole. The envelope of a unit never changes.
    """

    image: Image = None
    """Container image."""
    template: UnitTemplate | None = None
    access: UnitAccess | None = None
    image_pull_secrets: Annotated[tuple[PullSecret, ...] | None, MapOf("name"), Items(maximum=16)] = None
    """Secrets with the credentials for the image's registry."""
    security_profile: SecurityProfile | None = None
    """Baseline or Restricted."""
    labels: Annotated[FrozenDict[str, str] | None, Properties(maximum=64)] = None
    """Labels of the unit; null removes all."""

    def request(self, name: str, namespace: str, resource_version: str) -> UpdateObject:
        """The request to the service, for a unit at this version ("": any)."""
        given = encode(self)
        labels = {"labels": given.pop("labels") or {}} if "labels" in given else {}
        change = {"spec": given} | ({"metadata": labels} if labels else {})
        return UpdateObject(name, namespace, freeze(change), resource_version=resource_version)


@frozen
class UnitsQuery(ListQuery):
    """Which active units, and whether to watch them."""

    watch: bool = False
    """Respond with a stream of server-sent events instead of a page."""
    resource_version: _Version = None
    """With watch: start after this version, as header Last-Event-ID does."""


@frozen
class WaitQuery(Struct):
    """What to wait for."""

    wait: Annotated[str | None, Pattern("^Ready$")] = None
    """Ready: respond when the unit is ready, or when the timeout is over."""
    timeout: _Timeout = 60
    """With wait: the timeout in seconds."""


@frozen
class UnitQuery(WaitQuery):
    """Which active unit, and what to wait for."""

    namespace: Namespace | None = None
    """Namespace of the unit. Defaults to the first namespace of active units."""


@frozen
class UnitNamespaceQuery(Struct):
    """Which namespace an active unit is in."""

    namespace: Namespace | None = None
    """Namespace of the unit. Defaults to the first namespace of active units."""


@frozen
class UnitWaitQuery(UnitNamespaceQuery):
    """What to wait for."""

    for_: Annotated[str, Pattern("^(Ready|Deleted)$")] = field(default="Ready", metadata=wire("for"))
    """Ready: until the unit is ready. Deleted: until the unit is gone."""
    timeout: _Timeout = 60
    """Timeout in seconds."""


@frozen
class UnitWatchQuery(UnitNamespaceQuery):
    """Which active unit to watch, and from which version on."""

    resource_version: _Version = None
    """Start after this version, as header Last-Event-ID does."""


def unit_filter(query: ListQuery, namespaces: Namespaces, *, stock: bool) -> Callable[[GPUUnit], bool]:
    """Whether a unit has this role and matches the query.

    Raises:
        ApiError: 400 for a malformed label selector.
    """
    wanted = ListFilter.of(query)
    return lambda unit: namespaces.is_stock(unit.metadata.namespace) == stock and wanted.matches(unit)


@frozen(kw_only=True)
class UnitView(ObjectView):
    """Spec and status of a unit. Fields without a value are omitted."""

    lifecycle: str
    """instance: an active unit. stock: a stock unit, reserved capacity that can be claimed."""
    access: UnitAccess | None = None
    security_profile: str | None = None
    """Baseline or Restricted. Stock is always Restricted."""
    ready_replicas: int | None = None
    """Ready pods of the unit: 0 or 1."""
    stages: UnitStages | None = None
    """When the current pod was scheduled, started and ready."""
    service_name: str | None = None
    """Name of the Service of the unit; none for stock."""
    access_url: str | None = field(default=None, metadata=wire("accessURL"))
    """URL of the unit inside the cluster; none for stock."""
    source_stock_name: str | None = None
    """Name of the stock unit whose capacity it took over."""
    source_stock_namespace: str | None = None
    """Namespace of that stock unit."""
    pool: str | None = None
    """The pool that supplied the capacity."""
    claimed_for: str | None = None
    """The active unit that a stock unit is being handed off to."""
    deleting: bool | None = None
    """True while the unit is being deleted."""


def unit_view(unit: GPUUnit, namespaces: Namespaces) -> UnitView:
    """The view of a unit."""
    meta, status = unit.metadata, unit.status
    is_stock = namespaces.is_stock(meta.namespace)
    source, claim = provenance_of(meta), claim_of(meta) if is_stock else None
    pool = meta.labels.get(POOL_LABEL) if source is None else source.pool
    return UnitView(
        **object_fields(unit),
        lifecycle=_STOCK if is_stock else _ACTIVE,
        access=unit.spec.access,
        security_profile=profile_of(unit.spec, is_stock=is_stock),
        ready_replicas=status.ready_replicas or 0,
        stages=status.stages,
        service_name=status.service_name,
        access_url=status.access_url,
        source_stock_name=None if source is None else source.stock.name,
        source_stock_namespace=None if source is None else source.stock.namespace,
        pool=pool or None,
        claimed_for=None if claim is None or claim.claimed_for is None else str(claim.claimed_for),
        deleting=True if meta.deletion_timestamp is not None else None,
    )


def deleted_unit_view(name: str, namespace: str, uid: str | None, operation_id: str | None) -> UnitView:
    """The view of an active unit that a request created or updated, and that has been deleted since."""
    return UnitView(name=name, namespace=namespace, lifecycle=_ACTIVE, uid=uid, operation_id=operation_id, deleted=True)
