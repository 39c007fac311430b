"""How the program of a unit is ended."""

from typing import Any

import pytest

from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.api.namespaces import INSTANCE_NAMESPACE, STOCK_NAMESPACE
from gpuruntime.desired.rendering import Rendering
from gpuruntime.desired.units.deployment import unit_deployment
from gpuruntime.desired.units.pinning import pinned
from gpuruntime.desired.units.pod_template import pod_template
from gpuruntime.kube.builtin.pods import PodSpec
from gpuruntime.meta import ObjectMeta


def pod(namespace: str, **spec: Any) -> PodSpec:
    unit = GPUUnit(ObjectMeta(name="demo", namespace=namespace), GPUUnitSpec("g1.1", **spec))
    return pod_template(unit, Rendering()).spec


@pytest.mark.parametrize(
    ("spec", "seconds", "is_shared"),
    [
        pytest.param({}, 10, True, id="default"),
        pytest.param({"termination_grace_period_seconds": 600}, 600, True, id="a longer grace"),
        pytest.param({"share_process_namespace": False}, 10, None, id="an image with an init of its own"),
    ],
)
def test_an_active_unit_has_an_init_process_and_the_grace_of_its_spec(
    spec: dict[str, Any], seconds: int, is_shared: bool | None
) -> None:
    rendered = pod(INSTANCE_NAMESPACE, **spec)

    assert (rendered.termination_grace_period_seconds, rendered.share_process_namespace) == (seconds, is_shared)


def test_a_stock_unit_ends_within_a_second_whatever_its_spec() -> None:
    rendered = pod(STOCK_NAMESPACE, termination_grace_period_seconds=600)

    assert (rendered.termination_grace_period_seconds, rendered.share_process_namespace) == (1, None)


def test_a_unit_of_an_earlier_version_keeps_its_pod_until_its_grace_is_changed() -> None:
    unit = GPUUnit(ObjectMeta(name="demo", namespace=INSTANCE_NAMESPACE), GPUUnitSpec("g1.1"))
    changed = GPUUnit(unit.metadata, GPUUnitSpec("g1.1", termination_grace_period_seconds=60))
    written = pinned(None, unit_deployment(unit, Rendering(active_priority_class="earlier")))

    kept, replaced = (pinned(written, unit_deployment(each, Rendering())) for each in (unit, changed))

    assert kept.spec.template == written.spec.template
    assert replaced.spec.template.spec.termination_grace_period_seconds == 60
