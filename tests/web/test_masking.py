import pytest

from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec, GPUUnitStatus
from gpuruntime.api.readiness import HttpGetCheck, HttpHeader, ReadinessProbe
from gpuruntime.api.roles import Roles
from gpuruntime.api.unit_template import EnvSource, KeyReference, UnitEnv, UnitTemplate
from gpuruntime.meta import Condition, FrozenDict, ObjectMeta, encode
from gpuruntime.service.errors import InvalidRequestError
from gpuruntime.web.masking import masked, refuse_masks
from gpuruntime.web.unit_bodies import UpdateUnitBody
from gpuruntime.web.views_units import unit_view


def unit(template: UnitTemplate, message: str = "") -> GPUUnit:
    status = GPUUnitStatus(conditions=(Condition("Ready", "False", "PodStartupFailed", message),))
    return GPUUnit(ObjectMeta(name="a", namespace="n"), GPUUnitSpec("g1", image="i", template=template), status)


def test_values_are_masked_and_names_and_numbers_are_not() -> None:
    source = EnvSource(secret_key_ref=KeyReference("tokens", "main"))
    template = UnitTemplate(
        command=("serve",),
        args=("--a", "--b"),
        envs=(UnitEnv("A", "one"), UnitEnv("B", ""), UnitEnv("C"), UnitEnv("D", value_from=source)),
        readiness_probe=ReadinessProbe(HttpGetCheck(80, "/?key=k", http_headers=(HttpHeader("X", "y"),))),
        extra=FrozenDict({"later": "unknown"}),
    )

    view = masked(unit_view(unit(template), Roles()))

    assert encode(view)["template"] == {
        "command": ["***"],
        "args": ["***", "***"],
        "envs": [
            {"name": "A", "value": "***"},
            {"name": "B", "value": "***"},
            {"name": "C"},
            {"name": "D", "valueFrom": {"secretKeyRef": {"name": "tokens", "key": "main"}}},
        ],
        "readinessProbe": {
            "httpGet": {"port": 80, "path": "***", "httpHeaders": [{"name": "X", "value": "***"}]},
        },
    }
    assert (view.image, view.name) == ("i", "a")


def test_a_message_that_quotes_a_value_is_masked_there() -> None:
    template = UnitTemplate(command=("serve --key",), envs=(UnitEnv("A", "serve --key=of-mine"), UnitEnv("B", "no")))
    said = 'exec: "serve --key": not found, serve --key=of-mine'

    view = masked(unit_view(unit(template, said), Roles()))

    assert view.message == 'exec: "***": not found, ***'


def test_a_body_with_the_mask_in_place_of_a_value_is_refused_by_field() -> None:
    body = UpdateUnitBody(template=UnitTemplate(args=("a", "***"), envs=(UnitEnv("***", "b"), UnitEnv("C", "***"))))

    with pytest.raises(InvalidRequestError) as refusal:
        refuse_masks(body)

    assert [problem.partition(":")[0] for problem in refusal.value.problems] == [
        "template.args[1]",
        "template.envs[1].value",
    ]
