"""Functions without workers, because they cannot have any or because the cluster says no, on a real control plane."""

from typing import Any

from gpuruntime.api import reasons
from gpuruntime.api.gpufunction import FunctionWorkers, GPUFunction, GPUFunctionSpec
from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.desired.functions.network_policy import policy_name
from gpuruntime.kube import MergePatch
from gpuruntime.meta import ObjectMeta
from tests.product_scenes import Observer, eventually
from tests.reconcilers.gpufunction.function_scenes import FunctionWorld, serverless_spec
from tests.reconcilers.pod_scenes import say, scheduled, silent_node

__all__ = ["silent_node"]

NO_SUCH_CLASS = "No_Such Name"
SMALL = GPUUnitSpec("g1.1", cpu="10m", memory="16Mi", image="theirs")


async def test_of_two_functions_with_one_request_id_the_older_has_it_until_it_is_gone(
    world: FunctionWorld, observer: Observer
) -> None:
    async with world.operator():
        await world.make("a", 1, request_id="same")
        await world.because("a", reasons.FUNCTION_READY, "1 of 1")
        await world.make("b", 1, request_id="same")
        taken = await world.because("b", reasons.REQUEST_ID_TAKEN, "Function a")
        before = sorted(await world.units())
    quiet = await world.writes_of_a_second_pass()

    async with world.operator():
        await world.admin.delete(GPUFunction, "a", world.active)
        await world.because("b", reasons.FUNCTION_READY, "1 of 1")
        await observer.units.until(
            lambda store: [unit.metadata.name for unit in store.list(world.active).items] == ["b-1"]
        )

    assert (taken.status.phase, taken.status.last_serial) == ("Failed", None)
    assert before == ["a-1"]
    assert quiet == []


async def test_an_invalid_spec_changes_no_worker(world: FunctionWorld) -> None:
    async with world.operator():
        await world.make("hello", 1)
        await world.because("hello", reasons.FUNCTION_READY, "1 of 1")

        await world.change("hello", {"runtimeClassName": NO_SUCH_CLASS})
        broken = await world.because("hello", reasons.INVALID_SPEC, NO_SUCH_CLASS)
        kept = await world.units()
    quiet = await world.writes_of_a_second_pass()
    async with world.operator():
        mended = await world.change("hello", {"runtimeClassName": None})
        await world.because("hello", reasons.FUNCTION_READY, "1 of 1", mended)

    assert broken.status.phase == "Failed"
    assert list(kept) == ["hello-1"]
    assert list(await world.units()) == ["hello-1"]
    assert quiet == []


async def test_workers_that_a_quota_refuses_come_when_there_is_room_and_no_number_is_used_twice(
    world: FunctionWorld,
) -> None:
    async with world.operator(refused_seconds=1.0) as operator:
        async with world.quota_of_none(GPUUnit(ObjectMeta(), SMALL)):
            await world.make("hello", 1)
            refused = await world.because("hello", reasons.UNIT_SYNC_FAILED, "quota")
            runs = sum(operator.functions.counters.results.values())

        filled = await world.because("hello", reasons.FUNCTION_READY, "1 of 1")

    assert refused.status.phase == "Failed"
    assert list(await world.units()) == [f"hello-{filled.status.last_serial}"]
    assert runs < 50
    assert await world.writes_of_a_second_pass() == []


async def test_names_that_others_have_and_foreign_policies_are_left_alone(world: FunctionWorld) -> None:
    theirs: dict[str, Any] = {"metadata": {"name": policy_name("other")}, "spec": {"podSelector": {}}}
    world.access.admin().create(f"/apis/networking.k8s.io/v1/namespaces/{world.active}/networkpolicies", theirs)
    await world.make_unit("hello-1", SMALL)
    async with world.operator():
        await world.make("hello", 1)
        await world.make("other", 1)

        filled = await world.because("hello", reasons.FUNCTION_READY, "1 of 1")
        blocked = await world.because("other", reasons.FOREIGN_OBJECT, policy_name("other"))
        units, policies = await world.units(), await world.policies()

    assert sorted(units) == ["hello-1", "hello-2"]
    assert units["hello-1"].spec.image == "theirs"
    assert filled.status.last_serial == 2
    assert policies[policy_name("other")].spec.egress == ()
    assert blocked.status.phase == "Failed"
    assert await world.writes_of_a_second_pass() == []


async def test_a_number_that_was_stored_before_a_crash_is_not_used_again(world: FunctionWorld) -> None:
    made = await world.make("hello", 1)
    reserved = MergePatch({"status": {"lastSerial": 7}})
    await world.admin.patch(GPUFunction, "hello", world.active, reserved, subresource="status")

    async with world.operator():
        ready = await world.because("hello", reasons.FUNCTION_READY, "1 of 1", made)

    assert list(await world.units()) == ["hello-8"]
    assert ready.status.last_serial == 8
    assert await world.writes_of_a_second_pass() == []


async def test_a_status_that_was_wiped_is_written_again_and_the_workers_stay(world: FunctionWorld) -> None:
    async with world.operator():
        await world.make("hello", 2)
        before = await world.because("hello", reasons.FUNCTION_READY, "2 of 2")

        wiped = MergePatch({"status": None})
        await world.admin.patch(GPUFunction, "hello", world.active, wiped, subresource="status")
        after = await world.until(
            "hello", "is another version", lambda found: _version(found) > _version(before) and bool(found.status.phase)
        )

    assert (after.status.workers, after.status.last_serial) == (before.status.workers, 2)
    assert sorted(await world.units()) == ["hello-1", "hello-2"]
    assert await world.writes_of_a_second_pass() == []


async def test_a_failing_worker_is_in_the_status_of_its_function(
    world: FunctionWorld, observer: Observer, silent_node: str
) -> None:
    async with world.operator():
        await world.make("hello", 1, gpu=1, gpu_type=silent_node)
        await observer.pods.until(lambda _: bool(scheduled(observer)))
        (pod,) = scheduled(observer)

        waiting = {"waiting": {"reason": "ErrImagePull"}}
        say(world.access.admin(), world.active, pod, "Pending", ready=False, state=waiting)
        failed = await world.because("hello", reasons.POD_STARTUP_FAILED, "ErrImagePull")

    assert (failed.status.phase, failed.status.start_failures) == ("Failed", 1)
    assert failed.status.workers == FunctionWorkers(desired=1, ready=0, starting=1, draining=0)


async def test_a_function_that_cannot_be_made_from_a_unit_is_explained_in_an_event(world: FunctionWorld) -> None:
    admin, events = world.access.admin(), f"/apis/events.k8s.io/v1/namespaces/{world.active}/events"

    def refusals() -> list[dict[str, Any]]:
        return [event for event in admin.get(events)["items"] if event["reason"] == "FunctionRefused"]

    async with world.operator(refused_seconds=1.0):
        async with world.quota_of_none(GPUFunction(ObjectMeta(), GPUFunctionSpec("g1.1"))):
            await world.make_unit("mine", serverless_spec("hello"))
            await eventually(lambda: bool(refusals()))
            refused = refusals()[0]

        await world.because("hello", reasons.FUNCTION_READY, "1 of 1")

    assert refused["regarding"]["name"] == "mine"
    assert "quota" in refused["note"]
    assert list(await world.units()) == ["mine"]


def _version(function: GPUFunction) -> int:
    return int(function.metadata.resource_version)
