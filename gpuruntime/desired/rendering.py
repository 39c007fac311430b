"""The operator's settings for the children of units."""

from typing import Final

from attrs import field, frozen

from gpuruntime.api.namespaces import Namespaces

__all__ = ["Rendering", "SidecarRendering"]

_PLACEHOLDER: Final = "busybox:1.36"


@frozen
class SidecarRendering:
    """What the operator decides about the sidecars of workers.

    Args:
        image: the image of the product.
        activator_url: the URL that sidecars connect to, such as wss://gpuruntime-activator.gpuruntime-system:8443.
        activator_ca: the certificate authority of the activator, in PEM; "" for those of the image. It is not secret.
    """

    image: str
    activator_url: str
    activator_ca: str = ""


@frozen
class Rendering:
    """The operator's inputs of a rendering, beside the unit.

    A change affects existing units only as far as `gpuruntime.desired.units.pinning` allows.
    """

    namespaces: Namespaces = field(default=Namespaces())
    stock_image: str = _PLACEHOLDER
    """Image of stock units without an image. It needs a shell."""
    default_image: str = _PLACEHOLDER
    """Image of active units without an image. It needs a shell."""
    stock_priority_class: str = "gpuruntime-stock"
    """PriorityClass of stock pods: they never preempt, and active pods may preempt them."""
    active_priority_class: str = "gpuruntime-active"
    """PriorityClass of active pods: they may preempt stock."""
    claimed_priority_class: str = "gpuruntime-claimed"
    """PriorityClass of the first pod of a claimed unit: the priority of active pods, but it never preempts."""
    progress_deadline_seconds: int = 600
    """The progress deadline of rollouts. Large images take minutes to pull."""
    min_ready_seconds: int = 3
    """`minReadySeconds` of units that set none and have no readiness probe."""
    cluster_domain: str = "cluster.local"
    sidecar: SidecarRendering | None = None
    """Settings of the sidecars of workers. Without them, serverless units are not rendered."""
