"""The Service of a unit, and its URL."""

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.unit_template import UnitPort
from gpuruntime.desired.rendering import Rendering
from gpuruntime.desired.units.names import child_name, unit_labels, unit_selector
from gpuruntime.kube.builtin.core import Service, ServicePort, ServiceSpec
from gpuruntime.meta import ObjectMeta

__all__ = ["access_url", "unit_service"]


def unit_service(unit: GPUUnit, rendering: Rendering) -> Service | None:
    """The Service of a unit, with exactly its ports; None for a unit without ports and for stock."""
    meta, ports = unit.metadata, unit.spec.template.ports
    if not ports or rendering.namespaces.is_stock(meta.namespace):
        return None
    return Service(
        metadata=ObjectMeta(name=child_name(meta.name), namespace=meta.namespace, labels=unit_labels(meta.name)),
        spec=ServiceSpec(
            type="ClusterIP",
            # The server's default, set explicitly: drift of an unset field would not be corrected.
            ip_family_policy="SingleStack",
            selector=unit_selector(meta.name),
            ports=tuple(
                ServicePort(port=port.port, name=port.name, protocol=port.protocol, target_port=port.port)
                for port in ports
            ),
        ),
    )


def access_url(unit: GPUUnit, rendering: Rendering) -> str | None:
    """The URL of a unit inside the cluster, with its primary port or its first TCP port.

    None for stock, for a unit without a TCP port, and if the primary port is not one of its TCP ports.
    """
    if rendering.namespaces.is_stock(unit.metadata.namespace):
        return None
    port = _primary_port(unit)
    if port is None:
        return None
    host = f"{child_name(unit.metadata.name)}.{unit.metadata.namespace}.svc.{rendering.cluster_domain}"
    return f"{unit.spec.access.scheme}://{host}:{port.port}"


def _primary_port(unit: GPUUnit) -> UnitPort | None:
    wanted = unit.spec.access.primary_port
    reachable = (port for port in unit.spec.template.ports if port.protocol == "TCP")
    return next((port for port in reachable if wanted is None or port.name == wanted), None)
