"""The `gpuruntime` command of a later release, which renders pods with a longer termination grace period.

python -m e2e.later_release controller-manager --config F
"""

import sys
from typing import Final

from attrs import evolve

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.desired.rendering import Rendering
from gpuruntime.desired.units import deployment
from gpuruntime.desired.units.pod_template import pod_template
from gpuruntime.kube.builtin.pods import PodTemplateSpec
from gpuruntime.processes import command

__all__ = ["GRACE_SECONDS"]

GRACE_SECONDS: Final = 77


def _later_template(unit: GPUUnit, rendering: Rendering) -> PodTemplateSpec:
    template = pod_template(unit, rendering)
    return evolve(template, spec=evolve(template.spec, termination_grace_period_seconds=GRACE_SECONDS))


if __name__ == "__main__":
    vars(deployment)["pod_template"] = _later_template
    sys.exit(command.main())
