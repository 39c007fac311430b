"""What callers send about pools: bodies with the rules of the custom resource, and the requests that they stand for."""

from typing import Annotated

from attrs import field, frozen

from gpuruntime.api.envelope import Amount, GpuCount, GpuType, Image, SpecName
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.api.placement import PullSecret, UnitToleration
from gpuruntime.api.stockpool import StockPoolSpec
from gpuruntime.api.unit_template import UnitTemplate
from gpuruntime.meta import EMPTY, Atomic, FrozenDict, Items, Length, MapOf, Properties, Range, Struct, encode, freeze
from gpuruntime.service.objects.update import ChangeObject
from gpuruntime.service.pools import CreatePool, pool_name
from gpuruntime.web.resources.unit_bodies import Name, Namespace

__all__ = ["CreatePoolBody", "UpdatePoolBody"]

_Replicas = Annotated[int, Range(minimum=0, maximum=10000)]
_RuntimeClass = Annotated[str | None, Length(minimum=1, maximum=253)]


@frozen
class CreatePoolBody(Struct):
    """A pool that keeps a number of ready stock units of one flavour."""

    spec_name: SpecName
    """Name of the flavour, such as g1.1: what claims ask for."""
    replicas: _Replicas
    """How many ready units to keep beside those that were claimed."""
    name: Name | None = None
    """Name of the pool; one that follows from the operationID unless given."""
    namespace: Namespace | None = None
    """The stock namespace to make the pool in; the first one unless given."""
    image: Image = None
    """Image of the stock units; the operator's small reservation image unless given."""
    cpu: Amount = None
    """CPUs of each unit, such as 4 or 500m."""
    memory: Amount = None
    """Memory of each unit, such as 16Gi."""
    gpu: GpuCount = 0
    """GPUs of each unit."""
    gpu_type: GpuType = None
    """Model of the GPUs: the value of label nvidia.com/gpu.product that a node must have."""
    template: UnitTemplate = field(default=UnitTemplate())
    """What runs inside the stock units while they wait."""
    image_pull_secrets: Annotated[tuple[PullSecret, ...], MapOf("name"), Items(maximum=16)] = ()
    """Secrets with the credentials for the image's registry."""
    tolerations: Annotated[tuple[UnitToleration, ...], Atomic(), Items(maximum=32)] = ()
    """Taints of nodes that the units accept."""
    node_selector: Annotated[FrozenDict[str, str], Properties(maximum=32)] = EMPTY
    """Labels that a node must have."""
    runtime_class_name: _RuntimeClass = None
    """RuntimeClass that runs the units."""

    def request(self, operation_id: str, namespaces: Namespaces) -> CreatePool:
        """What is asked for."""
        spec = StockPoolSpec(
            self.spec_name,
            self.replicas,
            image=self.image,
            cpu=self.cpu,
            memory=self.memory,
            gpu=self.gpu,
            gpu_type=self.gpu_type,
            template=self.template,
            image_pull_secrets=self.image_pull_secrets,
            tolerations=self.tolerations,
            node_selector=self.node_selector,
            runtime_class_name=self.runtime_class_name,
        )
        return CreatePool(
            self.name or pool_name(self.spec_name, operation_id), spec, self.namespace or namespaces.default_stock
        )


@frozen
class UpdatePoolBody(Struct):
    """What shall change. Fields that are left out stay as they are, inside template too; null removes, and a list is
    replaced as a whole. Any change but one of replicas replaces the stock, unit by unit.
    """

    spec_name: SpecName | None = None
    """Name of the flavour."""
    replicas: Annotated[int | None, Range(minimum=0, maximum=10000)] = None
    """How many ready units to keep beside those that were claimed."""
    image: Image = None
    """Image of the stock units."""
    cpu: Amount = None
    """CPUs of each unit."""
    memory: Amount = None
    """Memory of each unit."""
    gpu: Annotated[int | None, Range(minimum=0, maximum=1024)] = None
    """GPUs of each unit."""
    gpu_type: GpuType = None
    """Model of the GPUs."""
    template: UnitTemplate | None = None
    """What runs inside the stock units while they wait."""
    image_pull_secrets: Annotated[tuple[PullSecret, ...] | None, MapOf("name"), Items(maximum=16)] = None
    """Secrets with the credentials for the image's registry."""
    tolerations: Annotated[tuple[UnitToleration, ...] | None, Atomic(), Items(maximum=32)] = None
    """Taints of nodes that the units accept."""
    node_selector: Annotated[FrozenDict[str, str] | None, Properties(maximum=32)] = None
    """Labels that a node must have; those that are named change, a null removes all."""
    runtime_class_name: _RuntimeClass = None
    """RuntimeClass that runs the units."""

    def request(self, name: str, namespace: str, resource_version: str) -> ChangeObject:
        """What is asked for, of a pool in this state ("": any)."""
        change = freeze({"spec": encode(self)})
        return ChangeObject(name, namespace, change, resource_version=resource_version)
