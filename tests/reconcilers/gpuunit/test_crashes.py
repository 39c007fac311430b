"""The GPUUnit operator dies at every write, misses answers and events, and ends where it would have ended."""

from pathlib import Path
from typing import Any

import pytest

from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.api.unit_template import UnitPort, UnitTemplate
from gpuruntime.control import Manager, ManagerOptions
from gpuruntime.desired.rendering import Rendering
from gpuruntime.kube.builtin.apps import Deployment
from gpuruntime.kube.builtin.core import Service
from gpuruntime.kube.patches import MergePatch
from gpuruntime.meta import ObjectMeta, is_true
from gpuruntime.reconcilers.gpuunit.reconciler import GPUUnitOptions, install_gpuunit
from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.crashing import Launch, Moment, Scenario, Stage, World, everything, explore, normalise, sample

PORTS = (UnitPort("http", 8080), UnitPort("metrics", 9090))


async def operator(launch: Launch) -> None:
    manager = Manager(launch.credentials, ManagerOptions("gpu-runtime-operator", grace=1.0))
    stock = launch.namespace("stock")
    install_gpuunit(
        manager,
        GPUUnitOptions(Rendering(namespaces=Namespaces((launch.namespace("active"),), (stock,)), min_ready_seconds=0)),
    )
    await manager.run()


async def act(stage: Stage) -> None:
    """A unit that is served, then changed and hidden; and one in stock."""
    active, stock = stage.namespace("active"), stage.namespace("stock")
    await stage.client.create(
        GPUUnit(
            ObjectMeta(name="demo", namespace=active), GPUUnitSpec("g1.1", gpu=1, template=UnitTemplate(ports=PORTS))
        )
    )
    await stage.client.create(GPUUnit(ObjectMeta(name="reserve", namespace=stock), GPUUnitSpec("g1.1", gpu=1)))
    await stage.until(lambda world: len(ready(world)) == 2)
    await stage.client.patch(GPUUnit, "demo", active, MergePatch({"spec": {"image": "x:2", "template": {"ports": []}}}))


def ready(world: World) -> list[str]:
    """The units that are ready in their newest generation."""
    return [
        unit.metadata.name
        for unit in world.list(GPUUnit)
        if is_true(unit.status.conditions, "Ready") and unit.status.observed_generation == unit.metadata.generation
    ]


def is_settled(world: World) -> bool:
    return len(ready(world)) == 2 and not world.list(Service)


def two_deployments_of_one_unit(moment: Moment) -> str | None:
    owners = [item.metadata.owner_references[0].uid for item in moment.world.list(Deployment)]
    return "two Deployments of one unit" if len(owners) > len(set(owners)) else None


async def final_state(stage: Stage) -> Any:
    """All objects but the conditions of Deployments: whether the words in those are about the newest ReplicaSet, and
    their order, depends on how many steps of a rollout Kubernetes saw at once.
    """
    world = stage.recorder.world
    objects = [
        {**obj, "status": {**obj.get("status", {}), "conditions": []}} if ref.kind == Deployment.KIND else obj
        for ref, obj in world.objects.items()
    ]
    return normalise(objects, world.namespaces)


SCENARIO = Scenario(
    name="a unit is made, changed and hidden",
    kinds=(GPUUnit, Deployment, Service),
    act=act,
    settled=is_settled,
    invariant=two_deployments_of_one_unit,
    observe=final_state,
    namespaces=("active", "stock"),
    ignored_resources=("leases", "events"),
)


async def test_a_sample_of_crashes_failures_and_lags_ends_in_the_same_state(
    product: ClusterAccess, tmp_path: Path
) -> None:
    report = await explore(SCENARIO, operator, product, tmp_path, plans=sample(5), max_parallel=2)

    report.check()


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_every_crash_failure_and_lag_ends_in_the_same_state(product: ClusterAccess, tmp_path: Path) -> None:
    report = await explore(SCENARIO, operator, product, tmp_path, plans=everything, max_parallel=4)

    report.check()
