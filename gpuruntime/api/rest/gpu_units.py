"""Bodies and views of /gpu-units. Bodies have the validation rules of the custom resource."""

from typing import Annotated, Any, ClassVar

from attrs import Attribute, field, fields, frozen

from gpuruntime.api.envelope import IMAGE_LENGTH, IMAGE_PATTERN, Reservation
from gpuruntime.api.gpuunit import GPUUnitSpec, UnitStages
from gpuruntime.api.projection import optional_fields, patch_of, view_of
from gpuruntime.api.rest.objects import CallerLabels, Name, Namespace, ObjectView
from gpuruntime.api.serverless import UnitServerlessStatus
from gpuruntime.meta import EMPTY, Check, Rule, Struct, wire, wire_name

__all__ = ["CreateUnitBody", "UnitView", "UpdateUnitBody"]


def _only_for_cold_starts(attribute: "Attribute[Any]") -> Check:
    """The rule of a field that the stock unit defines, unless the unit starts cold."""
    return Check(
        lambda body: body.cold_start or getattr(body, attribute.name) in (None, (), EMPTY),
        expected="none without coldStart, the stock unit defines it",
        field_path=f".{wire_name(attribute)}",
    )


@frozen(field_transformer=optional_fields(Reservation))
class CreateUnitBody(GPUUnitSpec):
    """An active unit: on the capacity of a ready stock unit of the flavour, the oldest first; or, with coldStart, with
    an envelope and a placement of its own. Without coldStart the stock unit defines both.
    """

    RULES: ClassVar[tuple[Rule, ...]] = (
        *GPUUnitSpec.RULES,
        *(
            _only_for_cold_starts(attribute)
            for attribute in fields(Reservation)
            if attribute.name not in {"extra", "spec_name"}
        ),
    )

    image: Annotated[str, IMAGE_LENGTH, IMAGE_PATTERN] = field(kw_only=True)
    """Container image."""
    name: Name = field(kw_only=True)
    """Name of the unit."""
    namespace: Namespace | None = None
    """Namespace of the unit; not a stock namespace. Defaults to the first namespace of active units."""
    stock_namespace: Namespace | None = None
    """Namespace to claim stock from. Defaults to the first stock namespace."""
    labels: CallerLabels = EMPTY
    """Labels of the unit, for label selectors."""
    cold_start: bool = False
    """Create the unit without stock, with the envelope and the placement in this request."""


@frozen(field_transformer=patch_of(GPUUnitSpec, without=Reservation))
class UpdateUnitBody(Struct):
    """The fields to change, as a merge patch: omitted fields keep their values, inside template and access too; null
    removes a value; lists and labels are replaced as a whole. The envelope of a unit never changes; its placement
    changes only with kubectl.
    """

    labels: CallerLabels | None = None
    """Labels of the unit; null removes all."""


@frozen(field_transformer=view_of(GPUUnitSpec))
class UnitView(ObjectView, GPUUnitSpec):
    """Spec and status of a unit. Fields without a value are omitted."""

    lifecycle: str = field(kw_only=True)
    """instance: an active unit. stock: a stock unit, reserved capacity that can be claimed."""
    ready_replicas: int | None = None
    """Ready pods of the unit: 0 or 1."""
    stages: UnitStages | None = None
    """When the current pod was scheduled, started and ready."""
    service_name: str | None = None
    """Name of the Service of the unit; none for stock."""
    access_url: str | None = field(default=None, metadata=wire("accessURL"))
    """URL of the unit inside the cluster; none for stock."""
    serverless_status: UnitServerlessStatus | None = None
    """State of the unit as a worker of a function; none for other units."""
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
