"""The Deployment of a unit: one replica, with strategy Recreate."""

from hashlib import sha256
from typing import Final

import orjson

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import RENDER_ON, RENDERED_FOR
from gpuruntime.desired.rendering import Rendering
from gpuruntime.desired.units.names import child_name, unit_labels, unit_selector
from gpuruntime.desired.units.pod_template import pod_template
from gpuruntime.kube.builtin.apps import Deployment, DeploymentSpec, DeploymentStrategy
from gpuruntime.meta import FrozenDict, LabelSelector, ObjectMeta, known_fields

__all__ = ["unit_deployment"]

_HASH_LENGTH: Final = 32


def unit_deployment(unit: GPUUnit, rendering: Rendering) -> Deployment:
    """The Deployment of a unit as this version renders it; pass it to `pinned` before it is written.

    An update never needs the GPUs twice, because the old pod is deleted first. The writer adds the owner reference.

    Raises:
        QuantityError: cpu or memory is not a quantity; `gpuruntime.desired.validation` reports that first.
    """
    meta = unit.metadata
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
            progress_deadline_seconds=rendering.progress_deadline_seconds,
            # There are no rollbacks: the spec of the unit is the source of truth.
            revision_history_limit=0,
        ),
    )


def _inputs(unit: GPUUnit, rendering: Rendering) -> str:
    """The hash of the user's inputs of the pod template, without those of the operator."""
    inputs = {
        "spec": known_fields(unit.spec),
        "stock": rendering.namespaces.is_stock(unit.metadata.namespace),
        "renderOn": unit.metadata.annotations.get(RENDER_ON, ""),
    }
    return sha256(orjson.dumps(inputs, option=orjson.OPT_SORT_KEYS)).hexdigest()[:_HASH_LENGTH]
