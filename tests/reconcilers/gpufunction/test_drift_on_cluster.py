"""Workers and policies that others change or delete: they come back, and go with their function."""

from collections.abc import Sequence
from typing import Any

import pytest

from gpuruntime.api import reasons
from gpuruntime.api.gpufunction import GPUFunction
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import FUNCTION_FINALIZER
from gpuruntime.desired.functions.network_policy import policy_name
from gpuruntime.desired.pools.units import is_ready_stock
from gpuruntime.kube import MergePatch
from gpuruntime.kube.builtin.networking import NetworkPolicy
from gpuruntime.meta import controller_of
from tests.product_scenes import Observer, settled
from tests.reconcilers.gpufunction.function_scenes import FunctionWorld, serverless_spec

LOSSES: list[dict[str, Any]] = [
    {"ownerReferences": None},
    {"labels": None},
    {"annotations": {"runtime.lokiwager.io/function-request-id": None}},
]


async def test_workers_that_lost_their_owner_or_marks_get_them_back(world: FunctionWorld) -> None:
    async with world.operator() as operator:
        made = await world.make("hello", len(LOSSES))
        await world.because("hello", reasons.FUNCTION_READY, "3 of 3")
        before = await world.units()

        for name, loss in zip(before, LOSSES, strict=True):
            await world.admin.patch(GPUUnit, name, world.active, MergePatch({"metadata": loss}))
        await settled(world.access, operator.functions)
        await world.because("hello", reasons.FUNCTION_READY, "3 of 3")
        after = await world.units()

    owners = [controller_of(unit.metadata) for unit in after.values()]
    assert [owner and owner.uid for owner in owners] == [made.metadata.uid] * len(LOSSES)
    assert {name: (unit.metadata.labels, unit.metadata.annotations) for name, unit in after.items()} == {
        name: (unit.metadata.labels, unit.metadata.annotations) for name, unit in before.items()
    }
    assert await world.writes_of_a_second_pass() == []


async def test_a_worker_that_is_edited_or_deleted_is_replaced(world: FunctionWorld, observer: Observer) -> None:
    async with world.operator() as operator:
        await world.make("hello", 2)
        await world.because("hello", reasons.FUNCTION_READY, "2 of 2")

        await world.admin.patch(GPUUnit, "hello-1", world.active, MergePatch({"spec": {"image": "other"}}))
        await world.admin.delete(GPUUnit, "hello-2", world.active)
        await observer.units.until(lambda store: _are_replaced(store.list(world.active).items))
        await settled(world.access, operator.functions)
        await world.because("hello", reasons.FUNCTION_READY, "2 of 2 workers are ready.")

    assert {unit.spec.image for unit in (await world.units()).values()} == {"nginx"}
    assert await world.writes_of_a_second_pass() == []


@pytest.mark.parametrize("is_deleted", [True, False], ids=["deleted", "edited"])
async def test_the_network_policy_comes_back(world: FunctionWorld, *, is_deleted: bool) -> None:
    name = policy_name("hello")
    async with world.operator() as operator:
        await world.make("hello", 1)
        await world.because("hello", reasons.FUNCTION_READY, "1 of 1")
        before = (await world.policies())[name]

        if is_deleted:
            await world.admin.delete(NetworkPolicy, name, world.active)
        else:
            opened = MergePatch({"spec": {"egress": [{}]}, "metadata": {"ownerReferences": None}})
            await world.admin.patch(NetworkPolicy, name, world.active, opened)
        await settled(world.access, operator.functions)
        after = (await world.policies())[name]

    assert after.spec == before.spec
    assert controller_of(after.metadata) == controller_of(before.metadata)
    assert await world.writes_of_a_second_pass() == []


async def test_workers_that_outlived_their_function_go_and_units_that_joined_stay(
    world: FunctionWorld, observer: Observer
) -> None:
    async with world.operator() as operator:
        await world.make("hello", 2)
        await world.make_unit("mine", serverless_spec("other"))
        await world.because("hello", reasons.FUNCTION_READY, "2 of 2")
        await world.because("other", reasons.FUNCTION_READY, "1 of 1")
        await settled(world.access, operator.functions)
    for name in ("hello-1", "hello-2"):
        stripped = MergePatch({"metadata": {"ownerReferences": None, "labels": None}})
        await world.admin.patch(GPUUnit, name, world.active, stripped)
    await world.admin.delete(GPUFunction, "hello", world.active)

    async with world.operator() as operator:
        await observer.units.until(
            lambda store: [unit.metadata.name for unit in store.list(world.active).items] == ["mine"]
        )
        counted = operator.manager.observability.registry.get_sample_value(
            "gpuruntime_function_orphans_removed_total", {"kind": "GPUUnit"}
        )

    assert counted == 2
    assert await world.writes_of_a_second_pass() == []


async def test_a_function_that_is_kept_by_a_finalizer_loses_its_workers_first(
    world: FunctionWorld, observer: Observer
) -> None:
    held = MergePatch({"metadata": {"finalizers": [FUNCTION_FINALIZER]}})
    async with world.operator():
        await world.make("hello", 1)
        await world.admin.patch(GPUFunction, "hello", world.active, held)
        await world.because("hello", reasons.FUNCTION_READY, "1 of 1")

        await world.admin.delete(GPUFunction, "hello", world.active)
        going = await world.because("hello", reasons.FUNCTION_DELETING)
        await observer.units.until(lambda store: not store.list(world.active).items)
        await world.until("hello", "has no worker", lambda found: _living(found) == (0, 0, 0))
    quiet = await world.writes_of_a_second_pass()
    await world.admin.patch(GPUFunction, "hello", world.active, MergePatch({"metadata": {"finalizers": None}}))

    assert going.status.phase == "Progressing"
    assert quiet == []


def _are_replaced(units: Sequence[GPUUnit]) -> bool:
    names = {unit.metadata.name for unit in units}
    return len(names) == 2 and not names & {"hello-1", "hello-2"} and all(map(is_ready_stock, units))


def _living(function: GPUFunction) -> tuple[int | None, ...]:
    workers = function.status.workers
    return () if workers is None else (workers.desired, workers.ready, workers.draining)
