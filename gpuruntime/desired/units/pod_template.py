"""The pod template of a unit: container, volumes, placement and priority."""

from typing import Final

from gpuruntime.api.envelope import GPU_PRODUCT
from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.desired.rendering import Rendering
from gpuruntime.desired.storage.file_group import FILE_GROUP_CONTEXT
from gpuruntime.desired.units.container import GPU_RESOURCE, SHARED_MEMORY, runtime_container
from gpuruntime.desired.units.names import unit_labels
from gpuruntime.desired.units.security_context import security_context
from gpuruntime.desired.units.storages import one_writer, storage_mounts, storage_volumes
from gpuruntime.desired.units.worker import worker_parts
from gpuruntime.kube.builtin.pods import LocalObjectReference, PodSpec, PodTemplateSpec, Toleration
from gpuruntime.kube.builtin.volumes import EmptyDirVolumeSource, Volume
from gpuruntime.meta import FrozenDict, ObjectMeta, Quantity, parse_quantity

__all__ = ["pod_template"]

# A claim waits for the stock pod to terminate, and that has nothing to finish.
_STOCK_GRACE_SECONDS: Final = 1
_GPU_TAINT: Final = Toleration(key=GPU_RESOURCE, operator="Exists", effect="NoSchedule")
_NANO: Final = 10**9


def pod_template(unit: GPUUnit, rendering: Rendering) -> PodTemplateSpec:
    """The pod template of a unit: stock reserves the envelope, an active unit runs the user's program in it.

    Guarantees: no ServiceAccount token in the program's container, no privilege escalation, no Service environment
    variables. SIGTERM ends the program, whether it handles the signal or not, unless the user asked for no init process
    or the unit is a worker. A program of any user can write to the storages of the unit, see
    `gpuruntime.desired.storage.file_group`. A worker has a sidecar, see `gpuruntime.desired.units.worker`.

    Raises:
        QuantityError: cpu or memory is not a quantity; `gpuruntime.desired.validation` reports that first.
        ValueError: the unit is a worker that cannot be rendered, see `worker_parts`.
    """
    spec = unit.spec
    is_stock = rendering.namespaces.is_stock(unit.metadata.namespace)
    image = spec.image or (rendering.stock_image if is_stock else rendering.default_image)
    storages = () if is_stock else spec.storage_mounts
    worker = worker_parts(unit, rendering)
    container = runtime_container(
        unit, image, security_context(spec, is_stock=is_stock), storage_mounts(storages), worker
    )
    # The processes of a worker's program must not see those of its sidecar, which has a token.
    shares_processes = spec.share_process_namespace and not is_stock and not worker.sidecars
    return PodTemplateSpec(
        metadata=ObjectMeta(labels=unit_labels(unit.metadata.name) | worker.labels),
        spec=PodSpec(
            containers=(container,),
            init_containers=worker.sidecars,
            volumes=(_shared_memory(spec), *worker.volumes, *storage_volumes(storages)),
            # The sidecar is another user than the program, and reaches its socket by the group.
            security_context=FILE_GROUP_CONTEXT if storages or worker.sidecars else None,
            affinity=one_writer(unit.metadata.name, storages),
            node_selector=_node_selector(spec),
            tolerations=_tolerations(spec),
            priority_class_name=rendering.stock_priority_class if is_stock else rendering.active_priority_class,
            runtime_class_name=spec.runtime_class_name,
            automount_service_account_token=False,
            image_pull_secrets=tuple(LocalObjectReference(secret.name) for secret in spec.image_pull_secrets),
            # As process 1 a program ignores every signal that it has no handler for.
            share_process_namespace=shares_processes or None,
            termination_grace_period_seconds=_grace_seconds(spec, is_stock=is_stock),
            enable_service_links=False,
        ),
    )


def _grace_seconds(spec: GPUUnitSpec, *, is_stock: bool) -> int:
    return _STOCK_GRACE_SECONDS if is_stock else spec.termination_grace_period_seconds


def _shared_memory(spec: GPUUnitSpec) -> Volume:
    """Up to half of the unit's memory as /dev/shm, which frameworks use to exchange data between processes."""
    limit = None
    if spec.memory is not None:
        memory = parse_quantity(spec.memory)
        limit = Quantity(max(memory.nanos // 2 // _NANO, 1) * _NANO, memory.notation).canonical()
    return Volume(SHARED_MEMORY, empty_dir=EmptyDirVolumeSource(medium="Memory", size_limit=limit))


def _node_selector(spec: GPUUnitSpec) -> FrozenDict[str, str]:
    if spec.gpu_type is None:
        return spec.node_selector
    return spec.node_selector | {GPU_PRODUCT: spec.gpu_type}


def _tolerations(spec: GPUUnitSpec) -> tuple[Toleration, ...]:
    # GPU nodes commonly have a taint with the name of the resource, which repels pods without GPUs.
    own = tuple(
        Toleration(
            key=given.key,
            operator=given.operator,
            value=given.value,
            effect=given.effect,
            toleration_seconds=given.toleration_seconds,
        )
        for given in spec.tolerations
    )
    return (*own, _GPU_TAINT) if spec.gpu and _GPU_TAINT not in own else own
