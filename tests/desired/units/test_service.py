from typing import Any

import pytest

from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec, UnitAccess
from gpuruntime.api.unit_template import UnitPort, UnitTemplate
from gpuruntime.desired.rendering import Rendering
from gpuruntime.desired.units.service import access_url, unit_service
from gpuruntime.meta.objects import ObjectMeta

DNS = UnitPort("dns", 53, "UDP")
HTTP = UnitPort("http", 8080)
METRICS = UnitPort("metrics", 9090)


def a_unit(*ports: UnitPort, namespace: str = "team-a", **access: Any) -> GPUUnit:
    spec = GPUUnitSpec("g1.1", template=UnitTemplate(ports=ports), access=UnitAccess(**access))
    return GPUUnit(ObjectMeta(name="demo", namespace=namespace), spec)


@pytest.mark.parametrize(
    ("unit", "url"),
    [
        (a_unit(HTTP, METRICS), "http://unit-demo.team-a.svc.cluster.local:8080"),
        (a_unit(DNS, METRICS), "http://unit-demo.team-a.svc.cluster.local:9090"),
        (a_unit(HTTP, METRICS, primary_port="metrics"), "http://unit-demo.team-a.svc.cluster.local:9090"),
        (a_unit(HTTP, scheme="grpc"), "grpc://unit-demo.team-a.svc.cluster.local:8080"),
        (a_unit(), None),
        (a_unit(DNS), None),
        (a_unit(HTTP, primary_port="gone"), None),
        (a_unit(HTTP, namespace="runtime-stock"), None),
    ],
)
def test_the_url_leads_to_the_primary_port_or_to_the_first_that_speaks_tcp(unit: GPUUnit, url: str | None) -> None:
    assert access_url(unit, Rendering()) == url


def test_a_custom_cluster_domain_is_used() -> None:
    assert access_url(a_unit(HTTP), Rendering(cluster_domain="corp")) == "http://unit-demo.team-a.svc.corp:8080"


def test_only_units_with_ports_have_a_service() -> None:
    service = unit_service(a_unit(DNS, HTTP), Rendering())

    assert service is not None
    assert [(port.name, port.port, port.protocol) for port in service.spec.ports] == [
        ("dns", 53, "UDP"),
        ("http", 8080, "TCP"),
    ]
    assert unit_service(a_unit(), Rendering()) is None
    assert unit_service(a_unit(HTTP, namespace="runtime-stock"), Rendering()) is None
