"""A real API server accepts rendered objects, and a second write changes nothing."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from attrs import evolve
from hypothesis import HealthCheck, given, settings

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.control.writing.comparison import differences
from gpuruntime.control.writing.writer import Writer
from gpuruntime.desired.rendering import Rendering
from gpuruntime.desired.units.deployment import unit_deployment
from gpuruntime.desired.units.pinning import pinned
from gpuruntime.desired.units.service import unit_service
from gpuruntime.kube.builtin.apps import Deployment
from gpuruntime.meta.codec import decode, encode
from gpuruntime.meta.objects import TypedObject
from gpuruntime.testing import AdminClient, ClusterAccess
from tests.control.writing_scenes import MANAGER, ensure_as_a_controller_does, make_owner, open_client
from tests.desired.renderings import WITH_SIDECAR
from tests.desired.valid_units import valid_units

GOLDEN = [
    decode(GPUUnit, yaml.safe_load(path.read_text()))
    for path in sorted((Path(__file__).parent / "golden").glob("*.unit.yaml"))
]


def children(unit: GPUUnit, rendering: Rendering, existing: Deployment | None = None) -> list[TypedObject]:
    service = unit_service(unit, rendering)
    return [pinned(existing, unit_deployment(unit, rendering)), *([] if service is None else [service])]


def dry_run(admin: AdminClient, child: TypedObject) -> Any:
    """The object that the server would store, by a dry run."""
    path = child.kind.path(child.metadata.namespace)
    return admin.create(f"{path}?dryRun=All&fieldValidation=Strict", encode(child))


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda unit: unit.metadata.name)
async def test_the_children_of_a_unit_are_written_once(
    kube_cluster: ClusterAccess, kube_namespace: str, golden: GPUUnit
) -> None:
    stock = (kube_namespace,) if golden.metadata.namespace == "runtime-stock" else ()
    unit = evolve(golden, metadata=evolve(golden.metadata, namespace=kube_namespace))
    rendering = evolve(WITH_SIDECAR, namespaces=Namespaces(stock=stock))
    async with open_client(kube_cluster) as client:
        owner = await make_owner(client, kube_namespace)

        writer = Writer(client, field_manager=MANAGER)
        first = [await writer.ensure(child, owner, live=None) for child in children(unit, rendering)]
        live = await client.get(Deployment, first[0].object.metadata.name, kube_namespace)
        upgraded = evolve(rendering, stock_image="busybox:2", default_image="busybox:2")
        again = children(unit, rendering, live) + children(unit, upgraded, live)
        second = [await ensure_as_a_controller_does(client, child, owner) for child in again]

    assert {outcome.result for outcome in first} == {"created"}
    assert {outcome.result for outcome in second} == {"unchanged"}


@given(unit=valid_units(namespace="default"))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_server_accepts_the_children_of_a_valid_unit_unchanged(kube_cluster: ClusterAccess, unit: GPUUnit) -> None:
    admin, rendered = kube_cluster.admin(), children(unit, Rendering())

    stored = [dry_run(admin, child) for child in rendered]

    for child, body in zip(rendered, stored, strict=True):
        assert differences(encode(child), body) == ()
