"""What units ask for: remembered for a state of the spec, worked out anew for the next."""

from typing import Any

import pytest
from attrs import evolve

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import RENDER_ON, RENDERED_TEMPLATE
from gpuruntime.desired.rendering import Rendering
from gpuruntime.desired.units.deployment import unit_deployment
from gpuruntime.desired.units.pinning import pinned
from gpuruntime.desired.units.service import access_url, unit_service
from gpuruntime.kube.builtin.apps import Deployment, DeploymentStatus
from gpuruntime.meta.codec import decode
from gpuruntime.meta.conditions import Condition
from gpuruntime.meta.frozen_mapping import FrozenDict
from gpuruntime.reconcilers.gpuunit.renderings import UnitRenderings

PORTS = {"ports": [{"name": "web", "port": 80}]}


def unit(uid: str = "u", generation: int = 1, image: str = "a", **metadata: Any) -> GPUUnit:
    return decode(
        GPUUnit,
        {
            "metadata": {"name": "x", "namespace": "a", "uid": uid, "generation": generation, **metadata},
            "spec": {"specName": "s", "cpu": "1", "memory": "1Gi", "gpu": 1, "image": image, "template": PORTS},
        },
    )


def test_a_unit_is_rendered_as_the_pure_functions_render_it() -> None:
    rendering = Rendering()

    rendered = UnitRenderings(rendering).of(unit())

    assert rendered.violations == ()
    assert rendered.deployment(None) == pinned(None, unit_deployment(unit(), rendering))
    assert rendered.service == unit_service(unit(), rendering)
    assert rendered.url == access_url(unit(), rendering)


def test_a_unit_whose_spec_is_the_same_is_rendered_once_whatever_its_status_is() -> None:
    renderings = UnitRenderings(Rendering())
    first = renderings.of(unit(resourceVersion="1"))

    second = renderings.of(unit(resourceVersion="2", labels={"team": "blue"}))

    written = second.deployment(None)
    assert second is first
    assert second.deployment(written) is written


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(unit(generation=2, image="b"), id="the spec changed"),
        pytest.param(unit(annotations={RENDER_ON: "now"}), id="a new rendering is asked for"),
        pytest.param(unit(uid="made again", image="b"), id="another unit has the name"),
        pytest.param(unit(generation=0, image="b"), id="nobody counts the states of the spec"),
    ],
)
def test_another_state_of_a_unit_is_rendered_anew(other: GPUUnit) -> None:
    rendering = Rendering()
    renderings = UnitRenderings(rendering)
    renderings.of(unit()).deployment(None)

    rendered = renderings.of(other)

    assert rendered.deployment(None) == pinned(None, unit_deployment(other, rendering))


def test_a_deployment_that_forgot_its_template_gets_the_rendering_of_today() -> None:
    rendered = UnitRenderings(Rendering()).of(unit())
    written = rendered.deployment(None)
    kept = {name: value for name, value in written.metadata.annotations.items() if name != RENDERED_TEMPLATE}
    spoilt = evolve(written, metadata=evolve(written.metadata, annotations=FrozenDict(kept)))

    assert rendered.deployment(spoilt) == written
    assert rendered.deployment(written) == written


def test_a_deployment_that_an_older_operator_rendered_keeps_its_template() -> None:
    old = UnitRenderings(Rendering(active_priority_class="old")).of(unit()).deployment(None)
    rendered = UnitRenderings(Rendering(active_priority_class="new")).of(unit())

    kept = rendered.deployment(old)

    assert kept.spec.template == old.spec.template
    assert rendered.deployment(kept) is kept


def test_a_unit_with_violations_has_no_deployment() -> None:
    rendered = UnitRenderings(Rendering()).of(unit(image="not an image"))

    assert [found.path for found in rendered.violations] == ["spec.image"]
    with pytest.raises(ValueError, match=r"spec\.image"):
        rendered.deployment(None)


def refused(deployment: Deployment, words: str, replicas: int = 0) -> Deployment:
    failure = Condition("ReplicaFailure", "True", "FailedCreate", words)
    return evolve(deployment, status=DeploymentStatus(replicas=replicas, conditions=(failure,)))


def test_a_template_is_rendered_anew_only_if_pod_security_admits_none_of_its_pods() -> None:
    violated = 'pods "unit-x-1" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true'
    old = UnitRenderings(Rendering(active_priority_class="old")).of(unit()).deployment(None)
    rendered = UnitRenderings(Rendering(active_priority_class="new")).of(unit())

    kept = [rendered.deployment(refused(old, "exceeded quota")), rendered.deployment(refused(old, violated, 1))]
    fresh = rendered.deployment(refused(old, violated))

    assert [one.spec.template for one in kept] == [old.spec.template] * 2
    assert fresh.spec.template.spec.priority_class_name == "new"
    assert rendered.deployment(refused(fresh, violated)) == fresh
