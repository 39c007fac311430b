"""The container of a unit: command, environment, resources, probe and security context."""

from typing import Any, Final

from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.api.unit_template import UnitEnv
from gpuruntime.desired.units.worker import WorkerParts
from gpuruntime.kube.builtin.containers import Container, ContainerPort, EnvVar, ResourceRequirements, VolumeMount
from gpuruntime.meta import FrozenDict, Quantity, freeze, known_fields, parse_quantity

__all__ = ["CONTAINER_NAME", "GPU_RESOURCE", "SHARED_MEMORY", "runtime_container"]

CONTAINER_NAME: Final = "runtime-worker"
GPU_RESOURCE: Final = "nvidia.com/gpu"
SHARED_MEMORY: Final = "runtime-shm"
"""Name of the volume at /dev/shm."""

# A shell handles signals only after `sleep` has ended, but interrupts `wait`; as PID 1 it ignores signals without a
# trap. Older shells do not know `sleep infinity`.
_SLEEP_FOR_EVER: Final = ("sh", "-c", "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done")
_SHARED_MEMORY_MOUNT: Final = VolumeMount(name=SHARED_MEMORY, mount_path="/dev/shm")  # noqa: S108  # no temporary file

_NO_WORKER: Final = WorkerParts()
_MILLI: Final = 10**6
_ONE: Final = 10**9


def runtime_container(
    unit: GPUUnit,
    image: str,
    security_context: FrozenDict[str, Any],
    storages: tuple[VolumeMount, ...] = (),
    worker: WorkerParts = _NO_WORKER,
) -> Container:
    """The container of a unit that runs this image, with these mounts of storages, and what it has as a worker.

    Raises:
        QuantityError: cpu or memory is not a quantity; `gpuruntime.desired.validation` reports that first.
    """
    spec, template = unit.spec, unit.spec.template
    probe = template.readiness_probe
    return Container(
        name=CONTAINER_NAME,
        image=image,
        image_pull_policy="IfNotPresent",
        command=template.command if template.command or template.args else _SLEEP_FOR_EVER,
        args=template.args,
        env=(*_injected(unit), *worker.env, *map(_variable, template.envs)),
        ports=tuple(
            ContainerPort(container_port=port.port, name=port.name, protocol=port.protocol) for port in template.ports
        ),
        resources=_resources(spec),
        volume_mounts=(_SHARED_MEMORY_MOUNT, *worker.mounts, *storages),
        # The status of a container that failed then has the end of its log, if it wrote no termination message.
        termination_message_policy="FallbackToLogsOnError",
        readiness_probe=None if probe is None else freeze(known_fields(probe)),
        startup_probe=worker.startup_probe,
        liveness_probe=worker.liveness_probe,
        lifecycle=worker.lifecycle,
        security_context=security_context,
    )


def _injected(unit: GPUUnit) -> tuple[EnvVar, ...]:
    # They come first, so that the user's variables can refer to them.
    memory = unit.spec.memory
    return (
        EnvVar("SPEC_NAME", unit.spec.spec_name),
        EnvVar("UNIT_NAME", unit.metadata.name),
        EnvVar("GPU_COUNT", str(unit.spec.gpu)),
        EnvVar("MEMORY_LIMIT", "" if memory is None else str(memory)),
    )


def _variable(env: UnitEnv) -> EnvVar:
    if env.value_from is not None:
        return EnvVar(env.name, value_from=freeze(known_fields(env.value_from)))
    return EnvVar(env.name, env.value or "")


def _resources(spec: GPUUnitSpec) -> ResourceRequirements | None:
    """Requests equal limits: the unit has exactly what it reserves."""
    amounts: dict[str, int | str] = {}
    if spec.cpu is not None:
        amounts["cpu"] = _rounded_up(parse_quantity(spec.cpu), _MILLI)
    if spec.memory is not None:
        amounts["memory"] = _rounded_up(parse_quantity(spec.memory), _ONE)
    if spec.gpu:
        amounts[GPU_RESOURCE] = str(spec.gpu)
    same = FrozenDict(amounts)
    return ResourceRequirements(requests=same, limits=same) if same else None


def _rounded_up(quantity: Quantity, step: int) -> str:
    # The server rounds up finer amounts, which would then differ from the desired ones.
    return Quantity(-(-quantity.nanos // step) * step, quantity.notation).canonical()
