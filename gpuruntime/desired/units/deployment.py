"""The Deployment of a unit: one replica, with strategy Recreate."""

from hashlib import sha256
from typing import Any, Final

import orjson
from attrs import evolve

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import RENDER_ON, RENDERED_FOR
from gpuruntime.desired.rendering import Rendering
from gpuruntime.desired.units.names import child_name, unit_labels, unit_selector
from gpuruntime.desired.units.pod_template import pod_template
from gpuruntime.desired.units.worker import function_of, is_worker, progress_seconds
from gpuruntime.kube.builtin.apps import Deployment, DeploymentSpec, DeploymentStrategy
from gpuruntime.meta import FrozenDict, LabelSelector, ObjectMeta, known_fields

__all__ = ["unit_deployment"]

_HASH_LENGTH: Final = 32
_ROLLOUT_SECONDS: Final = 1


def unit_deployment(unit: GPUUnit, rendering: Rendering) -> Deployment:
    """The Deployment of a unit as this version renders it; pass it to `pinned` before it is written.

    An update never needs the GPUs twice, because the old pod is deleted first. The writer adds the owner reference.

    Raises:
        QuantityError: cpu or memory is not a quantity; `gpuruntime.desired.validation` reports that first.
        ValueError: the unit is a worker that cannot be rendered, see `worker_parts`.
    """
    meta, min_ready_seconds = unit.metadata, _min_ready_seconds(unit, rendering)
    return Deployment(
        metadata=ObjectMeta(
            name=child_name(meta.name),
            namespace=meta.namespace,
            labels=unit_labels(meta.name),
            annotations=FrozenDict({RENDERED_FOR: _inputs(unit, rendering)}),
        ),
        spec=DeploymentSpec(
            replicas=1,
            paused=False,
            selector=LabelSelector(match_labels=unit_selector(meta.name)),
            strategy=DeploymentStrategy(type="Recreate"),
            template=pod_template(unit, rendering),
            min_ready_seconds=min_ready_seconds,
            # The API server wants it to be longer than minReadySeconds.
            progress_deadline_seconds=max(
                progress_seconds(unit.spec, rendering.progress_deadline_seconds), min_ready_seconds + _ROLLOUT_SECONDS
            ),
            # There are no rollbacks: the spec of the unit is the source of truth.
            revision_history_limit=0,
        ),
    )


def _min_ready_seconds(unit: GPUUnit, rendering: Rendering) -> int:
    """A probe, or the sidecar of a worker, knows when the program can serve. Without one, a pod is ready when its
    container has started, and nothing shows yet whether it stays up.
    """
    if unit.spec.min_ready_seconds is not None:
        return unit.spec.min_ready_seconds
    is_probed = unit.spec.template.readiness_probe is not None or is_worker(unit, rendering)
    return 0 if is_probed else rendering.min_ready_seconds


def _inputs(unit: GPUUnit, rendering: Rendering) -> str:
    """The hash of the user's inputs of the pod template, without those of the operator."""
    inputs: dict[str, Any] = {
        # minReadySeconds is not in the pod template.
        "spec": known_fields(evolve(unit.spec, min_ready_seconds=None)),
        "stock": rendering.namespaces.is_stock(unit.metadata.namespace),
        "renderOn": unit.metadata.annotations.get(RENDER_ON, ""),
    }
    if is_worker(unit, rendering):
        inputs["function"] = function_of(unit)
    return sha256(orjson.dumps(inputs, option=orjson.OPT_SORT_KEYS)).hexdigest()[:_HASH_LENGTH]
