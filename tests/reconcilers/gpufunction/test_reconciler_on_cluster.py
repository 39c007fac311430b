"""A function's life on a real control plane. After each scene the operator starts anew, and writes nothing."""

from gpuruntime.api import reasons
from gpuruntime.api.gpufunction import GPUFunction
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import FUNCTION_LABEL, FUNCTION_REQUEST_ID, FUNCTION_REVISION, UNIT_LABEL
from gpuruntime.control import Change
from gpuruntime.desired.functions.network_policy import policy_name
from gpuruntime.desired.pools.units import is_ready_stock
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.meta import is_controlled_by
from tests.product_scenes import Observer
from tests.reconcilers.gpufunction.function_scenes import FunctionWorld


async def test_a_function_has_as_many_workers_as_it_wants_and_takes_them_with_it(
    world: FunctionWorld, observer: Observer
) -> None:
    async with world.operator():
        made = await world.make("hello", 2)
        full = await world.because("hello", reasons.FUNCTION_READY, "2 of 2")
        workers = await world.units()
        pods = observer.pods.store.list(world.active).items
        policies = await world.policies()

        await world.scale("hello", 1)
        fewer = await world.until("hello", "has one worker", lambda found: _numbers(found) == (1, 1, 0, 0))
        changed = await world.scale("hello", 2)
        again = await world.because("hello", reasons.FUNCTION_READY, "2 of 2", changed)
        last = sorted(await world.units())
    quiet = await world.writes_of_a_second_pass()
    async with world.operator():
        await world.admin.delete(GPUFunction, "hello", world.active)
        await observer.units.until(lambda store: not store.list(world.active).items)

    revision = full.status.revision
    assert sorted(workers) == ["hello-1", "hello-2"]
    assert {unit.metadata.labels[FUNCTION_LABEL] for unit in workers.values()} == {"hello"}
    assert {unit.metadata.annotations[FUNCTION_REQUEST_ID] for unit in workers.values()} == {"hello"}
    assert {unit.metadata.annotations[FUNCTION_REVISION] for unit in workers.values()} == {revision}
    assert all(is_controlled_by(unit.metadata, made) for unit in workers.values())
    assert sorted(map(_marks, pods)) == [("hello", "hello-1"), ("hello", "hello-2")]
    assert list(policies) == [policy_name("hello")]
    assert (full.status.phase, full.status.last_serial, _numbers(full)) == ("Ready", 2, (2, 2, 0, 0))
    assert (fewer.status.last_serial, again.status.last_serial) == (2, 3)
    assert "hello-3" in last
    assert quiet == []


async def test_workers_of_an_old_revision_are_replaced_one_by_one_and_the_new_one_comes_first(
    world: FunctionWorld, observer: Observer
) -> None:
    ready: list[int] = []
    living: list[int] = []

    def count(change: Change[GPUUnit]) -> None:
        if not change.initial:
            units = observer.units.store.list(world.active).items
            ready.append(sum(map(is_ready_stock, units)))
            living.append(sum(unit.metadata.deletion_timestamp is None for unit in units))

    async with world.operator():
        await world.make("hello", 2)
        before = await world.because("hello", reasons.FUNCTION_READY, "2 of 2")
        await observer.units.until(lambda store: sum(map(is_ready_stock, store.list(world.active).items)) == 2)
        await observer.units.subscribe(count)

        changed = await world.change("hello", {"image": "nginx:2"})
        after = await world.because("hello", reasons.FUNCTION_READY, "2 of 2 workers are ready.", changed)
        await observer.units.until(lambda store: len(store.list(world.active).items) == 2)
        observer.units.unsubscribe(count)
        workers = await world.units()

    assert before.status.revision != after.status.revision
    assert sorted(workers) == ["hello-3", "hello-4"]
    assert {unit.spec.image for unit in workers.values()} == {"nginx:2"}
    assert min(ready) >= 2
    assert max(living) == 3
    assert await world.writes_of_a_second_pass() == []


async def test_a_paused_function_keeps_its_workers_and_one_that_wants_none_is_ready(world: FunctionWorld) -> None:
    async with world.operator():
        await world.make("hello", 1)
        await world.because("hello", reasons.FUNCTION_READY)
        idle = await world.make("idle")
        idle = await world.because("idle", reasons.FUNCTION_READY, "minWorkers is 0")

        changed = await world.change("hello", {"paused": True})
        paused = await world.because("hello", reasons.FUNCTION_PAUSED, "1 of 1", changed)
        workers = await world.units()

    assert (paused.status.phase, _numbers(paused)) == ("Paused", (1, 1, 0, 0))
    assert (idle.status.phase, _numbers(idle)) == ("Ready", (0, 0, 0, 0))
    assert sorted(workers) == ["hello-1"]
    assert await world.writes_of_a_second_pass() == []


def _numbers(function: GPUFunction) -> tuple[int | None, ...]:
    found = function.status.workers
    return () if found is None else (found.desired, found.ready, found.starting, found.draining)


def _marks(pod: Pod) -> tuple[str, str]:
    return pod.metadata.labels[FUNCTION_LABEL], pod.metadata.labels[UNIT_LABEL]
