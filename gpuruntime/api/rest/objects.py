"""What requests and responses have in common: names, and the fields of views."""

from typing import Annotated

from attrs import field, frozen

from gpuruntime.api.placement import PullSecret
from gpuruntime.api.unit_template import UnitTemplate
from gpuruntime.meta import EMPTY, FrozenDict, Length, Pattern, Struct, wire

__all__ = ["Name", "Namespace", "ObjectView", "StatusView"]


Name = Annotated[
    str,
    Length(minimum=1, maximum=253),
    Pattern(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"),
]


Namespace = Annotated[str, Length(minimum=1, maximum=63), Pattern("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]


@frozen(kw_only=True)
class StatusView(Struct):
    """Identity and status of an object: what the views of all kinds have. Fields without a value are omitted."""

    name: str
    """Its name."""
    namespace: str
    """Its namespace."""
    labels: FrozenDict[str, str] = EMPTY
    """Its labels."""
    phase: str | None = None
    """Ready, Progressing or Failed; a pool that is scaled to zero is Empty."""
    reason: str | None = None
    """Reason of the Ready condition, in one word."""
    message: str | None = None
    """Message of the Ready condition."""
    generation: int | None = None
    """Generation of the spec; it increases with every change."""
    observed_generation: int | None = None
    """The generation that was last reconciled."""
    last_sync_time: str | None = None
    """When the status last changed."""
    operation_id: str | None = field(default=None, metadata=wire("operationID"))
    """The operationID of the request that created it."""
    uid: str | None = None
    """Distinguishes it from a later object of the same name."""
    resource_version: str | None = None
    """The version of this state."""
    created_at: str | None = None
    """When it was created."""
    deleted: bool | None = None
    """True if the object has been deleted since: in the response to a request that is sent again."""


@frozen(kw_only=True)
class ObjectView(StatusView):
    """Spec and status of a unit or a pool. Fields without a value are omitted."""

    spec_name: str | None = None
    """Name of the flavour."""
    image: str | None = None
    """Container image."""
    cpu: int | str | None = None
    """CPUs of each unit."""
    memory: int | str | None = None
    """Memory of each unit."""
    gpu: int | None = None
    """GPUs of each unit."""
    gpu_type: str | None = None
    """Model of the GPUs."""
    template: UnitTemplate | None = None
    """Command, environment, ports and readiness probe of the container."""
    image_pull_secrets: tuple[PullSecret, ...] = ()
    """Secrets with the credentials for the image's registry."""
