"""Bodies and views of /gpu-units. Bodies have the validation rules of the custom resource."""

from typing import Annotated, Final

from attrs import field, frozen

from gpuruntime.api.envelope import Amount, GpuType, Image, SpecName
from gpuruntime.api.gpuunit import UnitAccess, UnitStages
from gpuruntime.api.placement import PullSecret
from gpuruntime.api.rest.objects import Name, Namespace, ObjectView
from gpuruntime.api.security_profile import BASELINE, SecurityProfile
from gpuruntime.api.unit_template import UnitTemplate
from gpuruntime.meta import EMPTY, FrozenDict, Items, Length, MapOf, Pattern, Properties, Range, Struct, encode, wire

__all__ = ["CreateUnitBody", "UnitView", "UpdateUnitBody"]

_ENVELOPE: Final = ("cpu", "memory", "gpu", "gpuType")


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
    cpu: Amount = None
    """CPUs of the unit; only with coldStart."""
    memory: Amount = None
    """Memory of the unit; only with coldStart."""
    gpu: Annotated[int | None, Range(minimum=0, maximum=1024)] = None
    """GPUs of the unit; only with coldStart."""
    gpu_type: GpuType = None
    """Model of the GPUs; only with coldStart."""

    def problems(self) -> tuple[str, ...]:
        """Fields that contradict each other: an envelope in a request that claims stock."""
        given = {} if self.cold_start else encode(self)
        extra = (name for name in _ENVELOPE if given.get(name) is not None)
        return tuple(f"{name}: expected none without coldStart, the stock unit defines it" for name in extra)


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
