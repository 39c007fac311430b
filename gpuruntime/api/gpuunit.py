"""GPUUnit: one runtime unit. Its role follows its namespace: reserved capacity in a stock namespace, a user's program
elsewhere.
"""

from typing import Annotated, ClassVar

from attrs import field, frozen

from gpuruntime.api.envelope import GPU_TYPE_RULE, Amount, GpuCount, GpuType, Image, SpecName
from gpuruntime.api.names import GROUP, VERSION
from gpuruntime.api.placement import PullSecret, UnitToleration
from gpuruntime.api.security_profile import BASELINE, SecurityProfile
from gpuruntime.api.unit_template import UnitTemplate
from gpuruntime.meta import (
    EMPTY,
    Atomic,
    Cel,
    Column,
    Condition,
    Definition,
    Format,
    FrozenDict,
    Immutable,
    Items,
    Length,
    MapOf,
    Pattern,
    Properties,
    ResourceKind,
    Struct,
    TypedObject,
    wire,
)

__all__ = ["GPUUnit", "GPUUnitSpec", "GPUUnitStatus", "UnitAccess", "UnitStages"]


@frozen
class UnitAccess(Struct):
    """How users reach the unit: what its URL is made of. A stock unit has no URL, whatever is said here."""

    primary_port: Annotated[str | None, Length(minimum=1, maximum=15)] = None
    """Name of the TCP port that the URL leads to; the first TCP port of the template unless given."""
    scheme: Annotated[str, Pattern("^(http|https|ws|wss|grpc|grpcs|tcp)$"), Length(maximum=5)] = "http"
    """Scheme of the URL: http, https, ws, wss, grpc, grpcs or tcp."""


@frozen
class GPUUnitSpec(Struct):
    """What the unit is: an envelope (specName, cpu, memory, gpu, gpuType) that never changes, and what runs in it."""

    RULES: ClassVar[tuple[Cel, ...]] = (
        Cel(
            "!has(self.access) || !has(self.access.primaryPort) || (has(self.template) && has(self.template.ports)"
            " && self.template.ports.exists(p, p.name == self.access.primaryPort && p.protocol == 'TCP'))",
            message="expected the name of a TCP port in template.ports as access.primaryPort",
        ),
        GPU_TYPE_RULE,
    )

    spec_name: Annotated[SpecName, Immutable()]
    """Name of the flavour, such as g1.1. Units are claimed from stock of the same specName. It cannot be changed."""
    image: Image = None
    """Container image. A stock unit without one runs the reservation image of the operator, an active unit a small
    image with a shell."""
    cpu: Annotated[Amount, Immutable()] = None
    """CPUs of the unit, such as 4 or 500m: reserved, and never exceeded. It cannot be changed."""
    memory: Annotated[Amount, Immutable()] = None
    """Memory of the unit, such as 16Gi: reserved, and never exceeded. Up to half of it can be used through /dev/shm. It
    cannot be changed."""
    gpu: Annotated[GpuCount, Immutable()] = 0
    """GPUs of the unit (nvidia.com/gpu), for itself alone. It cannot be changed."""
    gpu_type: Annotated[GpuType, Immutable()] = None
    """Model of the GPUs, such as NVIDIA-A100-SXM4-80GB: what label nvidia.com/gpu.product of the node must say. It
    cannot be changed."""
    template: UnitTemplate = field(default=UnitTemplate())
    access: UnitAccess = field(default=UnitAccess())
    image_pull_secrets: Annotated[tuple[PullSecret, ...], MapOf("name"), Items(maximum=16)] = ()
    """Secrets with the credentials for the image's registry."""
    tolerations: Annotated[tuple[UnitToleration, ...], Atomic(), Items(maximum=32)] = ()
    """Taints of nodes that the unit accepts. A unit with GPUs accepts nvidia.com/gpu by itself."""
    node_selector: Annotated[FrozenDict[str, str], Properties(maximum=32)] = EMPTY
    """Labels that a node must have."""
    runtime_class_name: Annotated[str | None, Length(minimum=1, maximum=253)] = None
    """RuntimeClass that runs the unit, such as nvidia; the default of the node unless given."""
    security_profile: SecurityProfile = BASELINE
    """Baseline: the image runs as the user that it names, root included. Restricted: the unit is admitted in namespaces
    with Pod Security `restricted`, has no capabilities, and its image has to name a user by a number other than 0. A
    stock unit is always restricted, and runs as user 65532."""


@frozen
class UnitStages(Struct):
    """When the pod that runs the unit now reached each stage of its start."""

    scheduled: Annotated[str | None, Format("date-time")] = None
    """When it was given a node."""
    started: Annotated[str | None, Format("date-time")] = None
    """When its container started."""
    ready: Annotated[str | None, Format("date-time")] = None
    """When it was ready to serve."""


@frozen
class GPUUnitStatus(Struct):
    """What the operator found, and nobody else writes. The Ready condition says whether the unit can be used, and
    if not, why.
    """

    phase: str | None = None
    """Summary of the Ready condition: Ready, Progressing or Failed."""
    ready_replicas: int | None = None
    """Pods of the unit that are ready: 0 or 1."""
    observed_generation: int | None = None
    """The generation of the spec that the children of the unit were last brought in line with."""
    last_sync_time: Annotated[str | None, Format("date-time")] = None
    """When the status last changed. An unchanged unit is not written again, so this may be long ago."""
    service_name: str | None = None
    """Name of the Service in front of the unit; none without ports, and none for stock."""
    access_url: str | None = field(default=None, metadata=wire("accessURL"))
    """URL of the unit inside the cluster; none without a TCP port, and none for stock."""
    stages: UnitStages | None = None
    """When the current pod was scheduled, started and ready: where the time of a slow start went."""
    conditions: Annotated[tuple[Condition, ...], MapOf("type")] = ()
    """Ready: true when what this generation of the spec asks for runs. If not, its reason and message say why."""


@frozen
class GPUUnit(TypedObject):
    """A runtime unit: GPUs, CPUs and memory for one container, with a stable address.

    In a stock namespace (runtime-stock) it is reserved capacity that waits to be claimed. Anywhere else it is active:
    it runs the user's image, and has a Service and a URL if it has ports.
    """

    KIND = ResourceKind(GROUP, VERSION, "GPUUnit", "gpuunits", namespaced=True)
    DEFINITION: ClassVar[Definition] = Definition(
        short_names=("gu",),
        categories=("gpuruntime",),
        columns=(
            Column("Spec", ".spec.specName", description="Flavour of the unit"),
            Column("Phase", ".status.phase", description="Ready, Progressing or Failed"),
            Column("Reason", '.status.conditions[?(@.type=="Ready")].reason', description="Why it is in this phase"),
            Column("Access", ".status.accessURL", description="URL inside the cluster"),
            Column("Age", ".metadata.creationTimestamp", type="date"),
            Column("GPU", ".spec.gpu", type="integer", priority=1, description="GPUs of the unit"),
            Column("Image", ".spec.image", priority=1, description="Image that was asked for"),
            Column(
                "Message",
                '.status.conditions[?(@.type=="Ready")].message',
                priority=1,
                description="The reason in a sentence",
            ),
        ),
    )

    spec: GPUUnitSpec
    status: GPUUnitStatus = field(default=GPUUnitStatus())
