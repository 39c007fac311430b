"""Units that join and leave functions, on a real control plane."""

from gpuruntime.api import reasons
from gpuruntime.api.gpufunction import GPUFunction
from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.api.names import FUNCTION_LABEL, FUNCTION_REQUEST_ID
from gpuruntime.kube import MergePatch
from gpuruntime.meta import ObjectKey, controller_of, is_true
from tests.product_scenes import Observer, settled
from tests.reconcilers.gpufunction.function_scenes import FunctionWorld, serverless_spec


async def test_a_unit_joins_the_function_with_its_request_id_and_counts_as_a_worker(
    world: FunctionWorld, observer: Observer
) -> None:
    async with world.operator() as operator:
        await world.make("hello", 2, request_id="say_hello")
        await world.because("hello", reasons.FUNCTION_READY, "2 of 2")

        await world.make_unit("mine", serverless_spec("say_hello"))
        await observer.until(ObjectKey(world.active, "mine"), "joined and ready", _is_ready_worker)
        await observer.units.until(lambda store: len(store.list(world.active).items) == 2)
        await settled(world.access, operator.functions)
        joined = await world.because("hello", reasons.FUNCTION_READY, "2 of 2")
        units = await world.units()

    mine = units["mine"]
    assert mine.metadata.labels[FUNCTION_LABEL] == "hello"
    assert mine.metadata.annotations[FUNCTION_REQUEST_ID] == "say_hello"
    assert controller_of(mine.metadata) is None
    assert mine.status.serverless is not None
    assert mine.status.serverless.function == "hello"
    assert len(units) == 2
    assert joined.status.phase == "Ready"
    assert await world.writes_of_a_second_pass() == []


async def test_a_unit_whose_request_id_no_function_has_makes_one_that_outlives_it(
    world: FunctionWorld, observer: Observer
) -> None:
    async with world.operator() as operator:
        await world.make_unit("mine", serverless_spec("say-hello", min_available_count=2, idle_timeout_seconds=0))
        full = await world.because("say-hello", reasons.FUNCTION_READY, "2 of 2")
        both = sorted(await world.units())

        await world.admin.delete(GPUUnit, "mine", world.active)
        for name in ("say-hello-1", "say-hello-2"):
            await observer.ready(ObjectKey(world.active, name))
        await settled(world.access, operator.functions)
        alone = await world.because("say-hello", reasons.FUNCTION_READY, "2 of 2")
        left = sorted(await world.units())

    scaling = full.spec.scaling
    assert (scaling.min_workers, scaling.max_workers, scaling.idle_timeout_seconds) == (2, 2, 300)
    assert both == ["mine", "say-hello-1"]
    assert left == ["say-hello-1", "say-hello-2"]
    assert (alone.metadata.uid, alone.spec.image) == (full.metadata.uid, "nginx")
    assert await world.writes_of_a_second_pass() == []


async def test_a_unit_with_another_request_id_changes_its_function_and_one_without_leaves(
    world: FunctionWorld, observer: Observer
) -> None:
    key = ObjectKey(world.active, "mine")
    async with world.operator():
        await world.make("first", image="nginx")
        await world.make("second", image="nginx")
        await world.make_unit("mine", serverless_spec("first"))
        await world.until("first", "has a worker", lambda found: _ready(found) == (1, 1))

        await _change(world, {"serverless": {"requestID": "second"}})
        await world.until("second", "has a worker", lambda found: _ready(found) == (1, 1))
        await world.until("first", "has none", lambda found: _ready(found) == (0, 0))
        moved = (await world.units())["mine"]
        await _change(world, {"serverless": {"enabled": False}})
        left = await observer.until(key, "left", lambda unit: FUNCTION_LABEL not in unit.metadata.labels)
        await world.until("second", "has none", lambda found: _ready(found) == (0, 0))
        await _change(world, {"serverless": {"enabled": True}})
        await world.until("second", "has a worker", lambda found: _ready(found) == (1, 1))
        await _change(world, {"serverless": None})
        await world.until("second", "has none", lambda found: _ready(found) == (0, 0))
        await observer.until(key, "left", lambda unit: FUNCTION_LABEL not in unit.metadata.labels)
        last = await observer.ready(key, generation=5)

    assert moved.metadata.labels[FUNCTION_LABEL] == "second"
    assert moved.metadata.annotations[FUNCTION_REQUEST_ID] == "second"
    assert FUNCTION_REQUEST_ID not in left.metadata.annotations
    assert FUNCTION_REQUEST_ID not in last.metadata.annotations
    assert await world.writes_of_a_second_pass() == []


async def test_a_request_id_that_is_the_name_of_another_function_gets_a_function_with_another_name(
    world: FunctionWorld,
) -> None:
    async with world.operator():
        await world.make("hello", request_id="greeting")
        await world.because("hello", reasons.FUNCTION_READY)

        await world.make_unit("mine", serverless_spec("hello"))
        await world.functions.until(lambda store: len(store.list(world.active).items) == 2)
        made = next(
            found for found in world.functions.store.list(world.active).items if found.spec.request_id == "hello"
        )
        await world.until(made.metadata.name, "has a worker", lambda found: _ready(found) == (1, 1))

    assert made.metadata.name.startswith("hello-")
    assert await world.writes_of_a_second_pass() == []


async def test_a_function_that_is_deleted_while_a_unit_names_it_is_made_again(world: FunctionWorld) -> None:
    async with world.operator():
        await world.make_unit("mine", serverless_spec("hello"))
        first = await world.until("hello", "has a worker", lambda found: _ready(found) == (1, 1))

        await world.admin.delete(GPUFunction, "hello", world.active)
        second = await world.until(
            "hello", "is another", lambda found: found.metadata.uid != first.metadata.uid and _ready(found) == (1, 1)
        )

    assert second.spec == first.spec
    assert list(await world.units()) == ["mine"]
    assert await world.writes_of_a_second_pass() == []


async def test_without_sidecars_nothing_joins_and_the_next_operator_that_has_them_mends_it(
    world: FunctionWorld, observer: Observer
) -> None:
    key = ObjectKey(world.active, "mine")
    async with world.operator(sidecar=None):
        await world.make_unit("mine", serverless_spec("hello"))
        await world.make("wanting", 1)
        waiting = await observer.because(key, reasons.SERVERLESS_NOT_CONFIGURED, "serverless.sidecarImage")
        made = await world.because("hello", reasons.SERVERLESS_NOT_CONFIGURED, "serverless.activatorURL")
        wanting = await world.because("wanting", reasons.SERVERLESS_NOT_CONFIGURED)
    quiet = await world.writes_of_a_second_pass(None)

    async with world.operator():
        await world.because("hello", reasons.FUNCTION_READY, "1 of 1")
        await world.because("wanting", reasons.FUNCTION_READY, "1 of 1")
        healed = await observer.until(key, "joined and ready", _is_ready_worker)

    assert (waiting.status.phase, made.status.phase, wanting.status.phase) == ("Failed", "Failed", "Failed")
    assert quiet == []
    assert healed.metadata.labels[FUNCTION_LABEL] == "hello"
    assert await world.writes_of_a_second_pass() == []


async def test_a_unit_that_is_no_worker_is_left_alone(world: FunctionWorld, observer: Observer) -> None:
    off = serverless_spec("hello", enabled=False)
    async with world.operator():
        await world.make_unit("off", off)
        await world.make_unit("plain", GPUUnitSpec("g1.1", cpu="10m", memory="16Mi", image="nginx"))
        first = await observer.ready(ObjectKey(world.active, "off"))
        second = await observer.ready(ObjectKey(world.active, "plain"))

    assert not world.functions.store.list(world.active).items
    assert [FUNCTION_LABEL in unit.metadata.labels for unit in (first, second)] == [False, False]
    assert first.status.serverless is None


async def _change(world: FunctionWorld, spec: dict[str, object]) -> None:
    await world.admin.patch(GPUUnit, "mine", world.active, MergePatch({"spec": spec}))


def _ready(function: GPUFunction) -> tuple[int | None, int | None]:
    workers = function.status.workers
    return (None, None) if workers is None else (workers.desired, workers.ready)


def _is_ready_worker(unit: GPUUnit) -> bool:
    return is_true(unit.status.conditions, "ServerlessReady") and FUNCTION_LABEL in unit.metadata.labels
