"""A crash scenario: a function gets workers, a unit joins it, a new revision replaces the workers, and it shrinks."""

from collections.abc import Iterator
from typing import Any, Final

from attrs import field, frozen

from gpuruntime.api.gpufunction import FunctionScaling, GPUFunction, GPUFunctionSpec
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.desired.functions.workers import serial_of
from gpuruntime.desired.pools.units import is_ready_stock
from gpuruntime.desired.units.worker import function_of
from gpuruntime.kube import MergePatch
from gpuruntime.kube.builtin.networking import NetworkPolicy
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.meta import ObjectMeta, controller_of, encode, is_true
from gpuruntime.testing.crashing import Launch, Moment, Scenario, Stage, World
from tests.reconcilers.gpufunction.function_scenes import SIDECAR, build_operator, serverless_spec

__all__ = ["SCENARIO", "keeping_functions"]

_NAME: Final = "hello"
_LATER: Final = "nginx:later"


async def keeping_functions(launch: Launch) -> None:
    """The operator under test: the reconcilers of functions and units."""
    namespaces = Namespaces((launch.namespace("active"),), (), launch.namespace("active"))
    await build_operator(launch.credentials, namespaces, SIDECAR).manager.run()


async def _act(stage: Stage) -> None:
    namespace = stage.namespace("active")

    async def change(body: dict[str, Any]) -> None:
        await stage.client.patch(GPUFunction, _NAME, namespace, MergePatch({"spec": body}))

    spec = GPUFunctionSpec("g1.1", cpu="10m", memory="16Mi", scaling=FunctionScaling(min_workers=2, max_workers=2))
    await stage.client.create(GPUFunction(ObjectMeta(name=_NAME, namespace=namespace), spec))
    await stage.until(lambda world: _is_ready(world, _NAME, 2))
    await stage.client.create(GPUUnit(ObjectMeta(name="mine", namespace=namespace), serverless_spec(_NAME)))
    await stage.client.create(GPUUnit(ObjectMeta(name="other", namespace=namespace), serverless_spec("made")))
    await stage.until(
        lambda world: _is_ready(world, _NAME, 2) and bool(_joined(world, "mine")) and len(_own(world)) == 1
    )
    await change({"image": _LATER, "scaling": {"minWorkers": 3, "maxWorkers": 3}})
    await stage.until(
        lambda world: _is_ready(world, _NAME, 3) and {unit.spec.image for unit in _own(world)} == {_LATER}
    )
    await change({"scaling": {"minWorkers": 2}})


@frozen
class _Promises:
    """Checks every moment of any number of runs. UIDs are unique, so one run does not disturb another."""

    _names: dict[tuple[str, str], str] = field(factory=dict)

    def broken(self, moment: Moment) -> str | None:
        """The first promise that does not hold, None if all hold."""
        found = next(iter(self._workers(moment.world)), None)
        return None if found is None else f"{found} ({moment})"

    def _workers(self, world: World) -> Iterator[str]:
        functions = {function.metadata.uid: function for function in world.list(GPUFunction)}
        policies = {policy.metadata.name for policy in world.list(NetworkPolicy)}
        for unit in world.list(GPUUnit):
            owner, name = controller_of(unit.metadata), unit.metadata.name
            function = None if owner is None else functions.get(owner.uid)
            if owner is not None and self._names.setdefault((owner.uid, name), unit.metadata.uid) != unit.metadata.uid:
                yield f"the name {name} was given twice"
            if function is not None and serial_of(function, name) > (function.status.last_serial or 0):
                yield f"worker {name} was created before its number was stored"
            if owner is None and unit.metadata.deletion_timestamp is not None:
                yield f"unit {name}, which joined, is being deleted"
        for pod in world.list(Pod):
            label = pod.metadata.labels.get("runtime.lokiwager.io/function")
            if label and f"function-{label}" not in policies:
                yield f"pod {pod.metadata.name} started before its network policy was stored"
        wanting = [function.spec.request_id or function.metadata.name for function in functions.values()]
        if len(wanting) > len(set(wanting)):
            yield "two functions were made for one requestID"


async def _final_state(stage: Stage) -> Any:
    """What does not depend on the serial numbers, of which a crash may lose some."""
    world = stage.recorder.world
    functions = sorted(world.list(GPUFunction), key=lambda function: function.metadata.name)
    policies = sorted(world.list(NetworkPolicy), key=lambda policy: policy.metadata.name)
    return {
        "functions": [
            (function.metadata.name, function.status.phase, function.status.revision, str(function.status.workers))
            for function in functions
        ],
        "specs": [encode(function.spec) for function in functions],
        "policies": [(policy.metadata.name, len(policy.spec.egress)) for policy in policies],
        "units": sorted(
            (function_of(unit), unit.spec.image or "", is_ready_stock(unit)) for unit in world.list(GPUUnit)
        ),
    }


def _own(world: World) -> list[GPUUnit]:
    return [unit for unit in world.list(GPUUnit) if controller_of(unit.metadata) is not None]


def _joined(world: World, name: str) -> list[GPUUnit]:
    units = [unit for unit in world.list(GPUUnit) if unit.metadata.name == name]
    return [unit for unit in units if function_of(unit) and is_ready_stock(unit)]


def _is_ready(world: World, name: str, workers: int) -> bool:
    function = world.get(GPUFunction, name, "active")
    numbers = None if function is None else function.status.workers
    return (
        function is not None
        and numbers is not None
        and is_true(function.status.conditions, "Ready")
        and function.status.observed_generation == function.metadata.generation
        and (numbers.desired, numbers.ready, numbers.starting, numbers.draining) == (workers, workers, 0, 0)
    )


def _is_settled(world: World) -> bool:
    return (
        _is_ready(world, _NAME, 2)
        and _is_ready(world, "made", 1)
        and len(_own(world)) == 1
        and all(map(is_ready_stock, world.list(GPUUnit)))
        and all(pod.metadata.deletion_timestamp is None for pod in world.list(Pod))
    )


SCENARIO: Final = Scenario(
    name="a function gets workers, a unit joins it, and a new revision replaces the workers",
    kinds=(GPUFunction, GPUUnit, NetworkPolicy, Pod),
    act=_act,
    settled=_is_settled,
    invariant=_Promises().broken,
    observe=_final_state,
    namespaces=("active",),
    ignored_resources=("leases", "events"),
    timeout=120.0,
)
