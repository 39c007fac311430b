"""GPUUnit: one runtime unit. Its namespace determines its role: reserved capacity in a stock namespace, active
elsewhere.
"""

from typing import Annotated, ClassVar

from attrs import field, frozen

from gpuruntime.api.envelope import Envelope, SharedSpec
from gpuruntime.api.names import GROUP, VERSION
from gpuruntime.api.projection import immutable_fields
from gpuruntime.api.ready_columns import READY_MESSAGE, READY_REASON
from gpuruntime.api.security_profile import BASELINE, SecurityProfile
from gpuruntime.api.serverless import UnitServerless, UnitServerlessStatus
from gpuruntime.api.storage_mount import StorageMounts
from gpuruntime.api.worker_rules import worker_rules
from gpuruntime.meta import (
    Cel,
    Column,
    Condition,
    Definition,
    Format,
    Length,
    MapOf,
    Pattern,
    Range,
    ResourceKind,
    Rule,
    Struct,
    TypedObject,
    wire,
)

__all__ = ["GPUUnit", "GPUUnitSpec", "GPUUnitStatus", "UnitAccess", "UnitStages"]


@frozen
class UnitAccess(Struct):
    """Access determines the URL of the unit. It has no effect on stock units, which have no URL."""

    primary_port: Annotated[str | None, Length(minimum=1, maximum=15)] = None
    """Name of the TCP port in the URL. Defaults to the first TCP port of the template."""
    scheme: Annotated[str, Pattern("^(http|https|ws|wss|grpc|grpcs|tcp)$"), Length(maximum=5)] = "http"
    """Scheme of the URL: http, https, ws, wss, grpc, grpcs or tcp."""


@frozen(field_transformer=immutable_fields(Envelope))
class GPUUnitSpec(SharedSpec):
    """Desired state of the unit: an immutable envelope, its placement, and what runs in it."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Cel(
            "!has(self.access) || !has(self.access.primaryPort) || (has(self.template) && has(self.template.ports)"
            " && self.template.ports.exists(p, p.name == self.access.primaryPort && p.protocol == 'TCP'))",
            message="access.primaryPort must be the name of a TCP port in template.ports",
            field_path=".access.primaryPort",
            check=lambda spec: spec.access.primary_port in (None, *spec.template.port_names("TCP")),
            expected=lambda spec: (
                f"the name of a TCP port of the template ({', '.join(spec.template.port_names('TCP')) or 'none'})"
            ),
        ),
        # Not a rule of `serverless`: a patch may have one of the two, and the stored spec the other.
        Cel(
            "!has(self.serverless) || !self.serverless.enabled || self.serverless.requestID != ''",
            message="serverless.requestID must name a function, unless serverless.enabled is false",
            field_path=".serverless.requestID",
            check=lambda spec: (
                spec.serverless is None or not spec.serverless.enabled or spec.serverless.request_id != ""
            ),
            expected="the requestID of a function; or enabled: false, for a unit that is no worker",
        ),
        *worker_rules("!has(self.serverless)", lambda spec: spec.serverless is not None),
        *SharedSpec.RULES,
    )

    access: UnitAccess = field(default=UnitAccess())
    security_profile: SecurityProfile = BASELINE
    """Baseline: the container runs as the user of its image, which may be root. Restricted: the pod satisfies the Pod
    Security Standard `restricted` and has no capabilities; the image must declare a numeric user other than 0. Stock
    units are always Restricted and run as user 65532."""
    termination_grace_period_seconds: Annotated[int, Range(minimum=1, maximum=3600)] = 10
    """Seconds between SIGTERM and SIGKILL when the unit is deleted or its pod is replaced. The unit holds its GPUs
    until its processes have ended, for this time at most. Stock units have 1 second."""
    share_process_namespace: bool = True
    """Whether the first process of the container is a child of the pod's own init process, so that SIGTERM ends it
    unless it handles the signal, and zombies are reaped. Set it to false for an image whose init must be process 1,
    such as s6-overlay or systemd. Stock units have no init process, and neither have serverless ones: their sidecar
    keeps a token that other processes must not reach."""
    storage_mounts: StorageMounts = ()
    """Storages of the unit's namespace that its container mounts. The unit starts when all of them can be mounted.
    Stock units mount none."""
    serverless: UnitServerless | None = None
    """Makes the unit a worker of a function. Its pod gets a sidecar that brings invocations. Without effect on stock
    units."""


@frozen
class UnitStages(Struct):
    """Times at which the current pod reached each stage of its start."""

    scheduled: Annotated[str | None, Format("date-time")] = None
    """Time at which the pod was bound to a node."""
    started: Annotated[str | None, Format("date-time")] = None
    """Time at which the container started."""
    ready: Annotated[str | None, Format("date-time")] = None
    """Time at which the pod became ready."""


@frozen
class GPUUnitStatus(Struct):
    """Observed state of the unit, written by the operator only. The Ready condition shows whether the unit can be used,
    and if not, why.
    """

    phase: str | None = None
    """Summary of the Ready condition: Ready, Progressing or Failed."""
    ready_replicas: int | None = None
    """Number of ready pods of the unit: 0 or 1."""
    observed_generation: int | None = None
    """Most recent generation of the spec that the operator has applied to the children of the unit."""
    last_sync_time: Annotated[str | None, Format("date-time")] = None
    """Time of the last status change. The status of an unchanged unit is not written, so this may be long ago."""
    service_name: str | None = None
    """Name of the unit's Service. Empty for a unit without ports and for stock units."""
    access_url: str | None = field(default=None, metadata=wire("accessURL"))
    """URL of the unit inside the cluster. Empty for a unit without a TCP port and for stock units."""
    stages: UnitStages | None = None
    """Times at which the current pod was scheduled, started and ready; they show where a slow start spent its time."""
    serverless: UnitServerlessStatus | None = None
    """State of the unit as a worker of a function. Empty for other units."""
    conditions: Annotated[tuple[Condition, ...], MapOf("type")] = ()
    """Conditions of the unit. Ready is True while the unit runs the current generation of its spec; otherwise its
    reason and message explain why not. A serverless unit also has ServerlessReady."""


@frozen
class GPUUnit(TypedObject):
    """GPUUnit is a runtime unit: GPUs, CPUs and memory for one container, with a stable address.

    In a stock namespace (runtime-stock) it is reserved capacity that can be claimed. In any other namespace it is
    active: it runs the user's image, and has a Service and a URL if it has ports.
    """

    KIND = ResourceKind(GROUP, VERSION, "GPUUnit", "gpuunits", namespaced=True)
    DEFINITION: ClassVar[Definition] = Definition(
        short_names=("gu",),
        categories=("gpuruntime",),
        columns=(
            Column("Spec", ".spec.specName", description="Flavour of the unit"),
            Column("Phase", ".status.phase", description="Ready, Progressing or Failed"),
            READY_REASON,
            Column("Access", ".status.accessURL", description="URL inside the cluster"),
            Column("Age", ".metadata.creationTimestamp", type="date"),
            Column("GPU", ".spec.gpu", type="integer", priority=1, description="Number of GPUs"),
            Column("Image", ".spec.image", priority=1, description="Image in the spec"),
            READY_MESSAGE,
        ),
    )

    spec: GPUUnitSpec
    status: GPUUnitStatus = field(default=GPUUnitStatus())
