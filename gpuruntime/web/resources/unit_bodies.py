"""What callers send about units: bodies with the rules of the custom resource, and the requests that they stand for."""

from typing import Annotated, Final

from attrs import field, frozen

from gpuruntime.api.envelope import Amount, GpuType, Image, SpecName
from gpuruntime.api.gpuunit import UnitAccess
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.api.placement import PullSecret
from gpuruntime.api.security_profile import BASELINE, SecurityProfile
from gpuruntime.api.unit_template import UnitTemplate
from gpuruntime.meta import EMPTY, FrozenDict, Items, Length, MapOf, Pattern, Properties, Range, Struct, encode, freeze
from gpuruntime.service.objects.update import ChangeObject
from gpuruntime.service.operations.requests import CreateUnit, Envelope, SeedStock
from gpuruntime.service.stock.names import LARGEST_BATCH

__all__ = ["CreateUnitBody", "Name", "Namespace", "SeedStockBody", "UpdateUnitBody"]

_ENVELOPE: Final = ("cpu", "memory", "gpu", "gpuType")

Name = Annotated[
    str,
    Length(minimum=1, maximum=253),
    Pattern(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"),
]
Namespace = Annotated[str, Length(minimum=1, maximum=63), Pattern("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]


@frozen
class SeedStockBody(Struct):
    """A batch of stock units: how many, and what each of them reserves. Stock runs no image of a user."""

    spec_name: SpecName
    """Name of the flavour, such as g1.1: what claims ask for."""
    replicas: Annotated[int, Range(minimum=1, maximum=LARGEST_BATCH)]
    """How many units to make."""
    cpu: Amount = None
    """CPUs of each unit, such as 4 or 500m."""
    memory: Amount = None
    """Memory of each unit, such as 16Gi."""
    gpu: Annotated[int, Range(minimum=0, maximum=1024)] = 0
    """GPUs of each unit."""
    gpu_type: GpuType = None
    """Model of the GPUs: what label nvidia.com/gpu.product of the node must say."""
    namespace: Namespace | None = None
    """The stock namespace to make them in; the first one unless given."""

    def request(self, namespaces: Namespaces) -> SeedStock:
        """What is asked for."""
        envelope = Envelope(self.spec_name, cpu=self.cpu, memory=self.memory, gpu=self.gpu, gpu_type=self.gpu_type)
        return SeedStock(envelope, self.replicas, self.namespace or namespaces.default_stock)


@frozen
class CreateUnitBody(Struct):
    """An active unit: on the capacity of a ready stock unit of the flavour, or, with coldStart, with an envelope of its
    own.
    """

    name: Name
    """Name of the unit."""
    spec_name: SpecName
    """Name of the flavour, such as g1.1: stock of it is taken, the oldest first."""
    image: Annotated[str, Length(minimum=1, maximum=1024), Pattern("^[!-~]+$")]
    """Container image."""
    namespace: Namespace | None = None
    """Namespace of the unit, not one for stock; the one of active units unless given."""
    stock_namespace: Namespace | None = None
    """Namespace that the stock is taken from; the first one for stock unless given."""
    template: UnitTemplate = field(default=UnitTemplate())
    access: UnitAccess = field(default=UnitAccess())
    image_pull_secrets: Annotated[tuple[PullSecret, ...], MapOf("name"), Items(maximum=16)] = ()
    """Secrets with the credentials for the image's registry."""
    security_profile: SecurityProfile = BASELINE
    """Baseline, or Restricted: then the unit is admitted in namespaces with Pod Security `restricted`, and its image
    has to name a user by a number other than 0."""
    labels: Annotated[FrozenDict[str, str], Properties(maximum=64)] = EMPTY
    """Labels of the unit, to find it by."""
    cold_start: bool = False
    """Whether to create the unit without stock, with the envelope that is given here."""
    cpu: Amount = None
    """CPUs of the unit; with coldStart only."""
    memory: Amount = None
    """Memory of the unit; with coldStart only."""
    gpu: Annotated[int | None, Range(minimum=0, maximum=1024)] = None
    """GPUs of the unit; with coldStart only."""
    gpu_type: GpuType = None
    """Model of the GPUs; with coldStart only."""

    def problems(self) -> tuple[str, ...]:
        """What is wrong with its fields taken together: an envelope where the stock unit has one."""
        given = {} if self.cold_start else encode(self)
        extra = (name for name in _ENVELOPE if given.get(name) is not None)
        return tuple(f"{name}: expected none without coldStart, the stock unit has it" for name in extra)

    def request(self, namespaces: Namespaces) -> CreateUnit:
        """What is asked for."""
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
    """What shall change. Fields that are left out stay as they are, inside template and access too; null removes, and a
    list or the labels are replaced as a whole. The envelope of a unit never changes.
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

    def request(self, name: str, namespace: str, resource_version: str) -> ChangeObject:
        """What is asked for, of a unit in this state ("": any)."""
        given = encode(self)
        labels = {"labels": given.pop("labels") or {}} if "labels" in given else {}
        change = {"spec": given} | ({"metadata": labels} if labels else {})
        return ChangeObject(name, namespace, freeze(change), resource_version=resource_version)
