"""Bodies and views of /operator/stockpools. Bodies have the validation rules of the custom resource."""

from typing import Annotated

from attrs import field, frozen

from gpuruntime.api.envelope import Amount, GpuCount, GpuType, Image, SpecName
from gpuruntime.api.placement import PullSecret, UnitToleration
from gpuruntime.api.rest.objects import Name, Namespace, ObjectView
from gpuruntime.api.unit_template import UnitTemplate
from gpuruntime.meta import EMPTY, Atomic, FrozenDict, Items, Length, MapOf, Properties, Range, Struct

__all__ = ["CreatePoolBody", "PoolView", "UpdatePoolBody"]

_Replicas = Annotated[int, Range(minimum=0, maximum=10000)]
_RuntimeClass = Annotated[str | None, Length(minimum=1, maximum=253)]


@frozen
class CreatePoolBody(Struct):
    """A pool that keeps a number of ready stock units of one flavour."""

    spec_name: SpecName
    """Name of the flavour, such as g1.1: what claims ask for."""
    replicas: _Replicas
    """Number of ready units to keep; claimed units do not count."""
    name: Name | None = None
    """Name of the pool. Defaults to a name derived from the operationID."""
    namespace: Namespace | None = None
    """The stock namespace to create the pool in. Defaults to the first stock namespace."""
    image: Image = None
    """Image of the stock units. Defaults to the operator's small reservation image."""
    cpu: Amount = None
    """CPUs of each unit, such as 4 or 500m."""
    memory: Amount = None
    """Memory of each unit, such as 16Gi."""
    gpu: GpuCount = 0
    """GPUs of each unit."""
    gpu_type: GpuType = None
    """Model of the GPUs: the value of label nvidia.com/gpu.product that a node must have."""
    template: UnitTemplate = field(default=UnitTemplate())
    """Command, environment, ports and readiness probe of the stock units."""
    image_pull_secrets: Annotated[tuple[PullSecret, ...], MapOf("name"), Items(maximum=16)] = ()
    """Secrets with the credentials for the image's registry."""
    tolerations: Annotated[tuple[UnitToleration, ...], Atomic(), Items(maximum=32)] = ()
    """Taints of nodes that the units tolerate."""
    node_selector: Annotated[FrozenDict[str, str], Properties(maximum=32)] = EMPTY
    """Labels that a node must have."""
    runtime_class_name: _RuntimeClass = None
    """RuntimeClass of the units."""


@frozen
class UpdatePoolBody(Struct):
    """The fields to change, as a merge patch: omitted fields keep their values, inside template too; null removes a
    value; lists are replaced as a whole. Any change but one of replicas replaces the stock, unit by unit.
    """

    spec_name: SpecName | None = None
    """Name of the flavour."""
    replicas: Annotated[int | None, Range(minimum=0, maximum=10000)] = None
    """Number of ready units to keep; claimed units do not count."""
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
    """Command, environment, ports and readiness probe of the stock units."""
    image_pull_secrets: Annotated[tuple[PullSecret, ...] | None, MapOf("name"), Items(maximum=16)] = None
    """Secrets with the credentials for the image's registry."""
    tolerations: Annotated[tuple[UnitToleration, ...] | None, Atomic(), Items(maximum=32)] = None
    """Taints of nodes that the units tolerate."""
    node_selector: Annotated[FrozenDict[str, str] | None, Properties(maximum=32)] = None
    """Labels that a node must have. The labels that are given change; null removes all."""
    runtime_class_name: _RuntimeClass = None
    """RuntimeClass of the units."""


@frozen(kw_only=True)
class PoolView(ObjectView):
    """Spec and status of a pool. Fields without a value are omitted."""

    replicas: int | None = None
    """Number of ready units to keep; claimed units do not count."""
    tolerations: tuple[UnitToleration, ...] = ()
    """Taints of nodes that the units tolerate."""
    node_selector: FrozenDict[str, str] = EMPTY
    """Labels that a node must have."""
    runtime_class_name: str | None = None
    """RuntimeClass of the units."""
    available: int | None = None
    """Stock units that are ready and not claimed."""
    allocated: int | None = None
    """Active units on capacity of this pool."""
    failures: int | None = None
    """Stock units that failed in a row since the last one became ready."""
