from typing import Any

import orjson
import pytest
from attrs import evolve
from hypothesis import given

from gpuruntime.api.envelope import SPEC_LIMIT
from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.api.names import RENDER_ON, RENDERED_DIGEST, RENDERED_FOR, RENDERED_TEMPLATE
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.desired.rendering import Rendering
from gpuruntime.desired.units.deployment import unit_deployment
from gpuruntime.desired.units.pinning import pinned
from gpuruntime.desired.validation import spec_violations
from gpuruntime.kube.builtin.apps import Deployment
from gpuruntime.meta.codec import decode, encode
from gpuruntime.meta.frozen_mapping import FrozenDict
from gpuruntime.meta.objects import ObjectMeta
from tests.desired.unit_strategies import renderings
from tests.desired.valid_units import valid_units

BEFORE = Rendering(stock_image="busybox:1.36", default_image="busybox:1.36")
AFTER = Rendering(stock_image="busybox:2", default_image="busybox:2", progress_deadline_seconds=60)
LARGEST_TEMPLATE = 128 * 1024


def a_unit(namespace: str = "runtime-instance", **spec: Any) -> GPUUnit:
    return GPUUnit(ObjectMeta(name="a", namespace=namespace), GPUUnitSpec("g1.1", **spec))


def rendered(unit: GPUUnit, rendering: Rendering, existing: Deployment | None = None) -> Deployment:
    return pinned(existing, unit_deployment(unit, rendering))


def image_of(deployment: Deployment) -> str | None:
    return deployment.spec.template.spec.containers[0].image


def annotated(deployment: Deployment, **annotations: str) -> Deployment:
    names = {"digest": RENDERED_DIGEST, "template": RENDERED_TEMPLATE, "inputs": RENDERED_FOR}
    changed = deployment.metadata.annotations | {names[key]: value for key, value in annotations.items()}
    return evolve(deployment, metadata=evolve(deployment.metadata, annotations=changed))


@pytest.mark.parametrize("namespace", ["runtime-instance", "runtime-stock"])
def test_a_new_operator_image_does_not_change_running_pods(namespace: str) -> None:
    unit = a_unit(namespace)
    running = rendered(unit, BEFORE)

    upgraded = rendered(unit, AFTER, running)

    assert image_of(upgraded) == "busybox:1.36"
    assert upgraded.spec.template == running.spec.template
    assert upgraded.metadata == running.metadata


def test_fields_outside_the_pod_template_are_rendered_by_the_current_version() -> None:
    unit = a_unit()
    running = rendered(unit, BEFORE)

    upgraded = rendered(unit, AFTER, running)

    assert upgraded.spec.progress_deadline_seconds == 60


def test_a_spec_change_applies_the_current_rendering() -> None:
    running = rendered(a_unit(), BEFORE)

    changed = rendered(a_unit(runtime_class_name="nvidia"), AFTER, running)

    assert image_of(changed) == "busybox:2"
    assert changed == rendered(a_unit(runtime_class_name="nvidia"), AFTER)


def test_render_on_applies_the_current_rendering_once() -> None:
    unit = a_unit()
    asking = evolve(unit, metadata=evolve(unit.metadata, annotations=FrozenDict({RENDER_ON: "2026-11-16"})))
    running = rendered(unit, BEFORE)

    asked = rendered(asking, AFTER, running)

    assert image_of(asked) == "busybox:2"
    assert image_of(rendered(asking, BEFORE, asked)) == "busybox:2"


def test_other_annotations_of_the_unit_have_no_effect() -> None:
    unit = a_unit()
    noted = evolve(unit, metadata=evolve(unit.metadata, annotations=FrozenDict({"example.org/note": "x"})))

    assert rendered(noted, AFTER, rendered(unit, BEFORE)) == rendered(unit, AFTER, rendered(unit, BEFORE))


def test_a_change_of_role_applies_the_current_rendering() -> None:
    unit = a_unit("team-a")
    running = rendered(unit, BEFORE)

    stock = rendered(unit, evolve(BEFORE, namespaces=Namespaces(stock=("team-a",))), running)

    assert stock.spec.template.spec.priority_class_name == "gpuruntime-stock"


def test_an_edited_pod_template_is_restored_from_the_stored_one() -> None:
    unit = a_unit()
    running = rendered(unit, BEFORE)
    edited = evolve(running, spec=evolve(running.spec, template=rendered(unit, AFTER).spec.template))

    repaired = rendered(unit, AFTER, edited)

    assert repaired.spec.template == running.spec.template


@pytest.mark.parametrize(
    "damage",
    [
        {"template": '{"spec":{}}'},
        {"template": ""},
        {"digest": "0" * 32},
        {"inputs": "0" * 32},
    ],
    ids=str,
)
def test_a_damaged_stored_template_is_rendered_again(damage: dict[str, str]) -> None:
    unit = a_unit()
    damaged = annotated(rendered(unit, BEFORE), **damage)

    assert rendered(unit, AFTER, damaged) == rendered(unit, AFTER)


def test_a_deployment_without_a_stored_template_is_rendered_again() -> None:
    unit = a_unit()
    foreign = evolve(rendered(unit, BEFORE), metadata=ObjectMeta(name="unit-a", namespace="runtime-instance"))

    assert rendered(unit, AFTER, foreign) == rendered(unit, AFTER)


def test_the_hash_of_the_inputs_is_the_same_in_every_release() -> None:
    """If this fails, the next release restarts the pods of every tenant."""
    unit = a_unit(image="python:3.12", cpu="4", memory="16Gi", gpu=1)

    inputs = unit_deployment(unit, BEFORE).metadata.annotations[RENDERED_FOR]

    assert inputs == "ad9a3e23c74a594d54db7634e84bf2ff"


def test_server_defaults_are_not_a_spec_change() -> None:
    filled_in = decode(GPUUnitSpec, {"specName": "g1.1", "gpu": 0, "access": {"scheme": "http"}, "template": {}})
    unit = a_unit()

    again = rendered(evolve(unit, spec=filled_in), AFTER, rendered(unit, BEFORE))

    assert image_of(again) == "busybox:1.36"


@given(valid_units(), renderings(), renderings())
def test_the_first_rendering_stays_whatever_the_current_version_renders(
    unit: GPUUnit, before: Rendering, after: Rendering
) -> None:
    running = rendered(unit, before)

    upgraded = rendered(unit, after, running)

    assert encode(upgraded.spec.template) == encode(running.spec.template)
    assert upgraded.metadata == running.metadata
    assert rendered(unit, after, upgraded) == upgraded
    assert orjson.loads(upgraded.metadata.annotations[RENDERED_TEMPLATE]) == encode(upgraded.spec.template)


def test_the_largest_spec_leaves_room_for_other_annotations() -> None:
    unit = a_unit()
    fitting = evolve(unit, spec=evolve(unit.spec, template=evolve(unit.spec.template, args=("\x01" * 16_000,))))

    text = rendered(fitting, BEFORE).metadata.annotations[RENDERED_TEMPLATE]

    assert spec_violations(fitting.spec) == ()
    assert len(text) > SPEC_LIMIT - 4096
    assert len(text) < LARGEST_TEMPLATE
