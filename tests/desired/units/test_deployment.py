"""How long the pod of a unit has to stay ready before its Deployment counts it."""

import pytest

from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.api.names import RENDERED_FOR
from gpuruntime.api.readiness import ReadinessProbe, TcpSocketCheck
from gpuruntime.api.unit_template import UnitTemplate
from gpuruntime.desired.rendering import Rendering
from gpuruntime.desired.units.deployment import unit_deployment
from gpuruntime.meta import ObjectMeta

PROBED = UnitTemplate(readiness_probe=ReadinessProbe(tcp_socket=TcpSocketCheck(80)))


def unit(seconds: int | None, template: UnitTemplate | None = None) -> GPUUnit:
    spec = GPUUnitSpec("g1.1", template=template or UnitTemplate(), min_ready_seconds=seconds)
    return GPUUnit(ObjectMeta(name="a", namespace="apps"), spec)


@pytest.mark.parametrize(
    ("of", "configured", "seconds"),
    [
        (unit(None), 3, 3),
        (unit(None), 0, 0),
        (unit(None, PROBED), 3, 0),
        (unit(7), 3, 7),
        (unit(7, PROBED), 3, 7),
        (unit(0), 3, 0),
    ],
)
def test_the_spec_decides_then_the_probe_then_the_operator(of: GPUUnit, configured: int, seconds: int) -> None:
    deployment = unit_deployment(of, Rendering(min_ready_seconds=configured))

    assert deployment.spec.min_ready_seconds == seconds


@pytest.mark.parametrize(("seconds", "deadline"), [(3, 600), (599, 600), (600, 601), (3600, 3601)])
def test_the_progress_deadline_is_longer_than_the_time_to_stay_ready(seconds: int, deadline: int) -> None:
    deployment = unit_deployment(unit(seconds), Rendering(progress_deadline_seconds=600))

    assert deployment.spec.progress_deadline_seconds == deadline


def test_another_time_to_stay_ready_restarts_nothing() -> None:
    before, after = (unit_deployment(unit(seconds), Rendering()) for seconds in (None, 30))

    assert before.metadata.annotations[RENDERED_FOR] == after.metadata.annotations[RENDERED_FOR]
