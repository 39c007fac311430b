import pytest

from gpuruntime.api.gpufunction import GPUFunction, GPUFunctionSpec, GPUFunctionStatus
from gpuruntime.api.gpustorage import GPUStorage, GPUStorageSpec, GPUStorageStatus, PrepareStatus, StoragePrepare
from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec, GPUUnitStatus
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.api.readiness import HttpGetCheck, HttpHeader, ReadinessProbe
from gpuruntime.api.rest.gpu_units import UpdateUnitBody
from gpuruntime.api.unit_template import EnvSource, KeyReference, UnitEnv, UnitTemplate
from gpuruntime.endpoints.server.route import Caller, Scope
from gpuruntime.meta import Condition, FrozenDict, ObjectMeta, decode, encode
from gpuruntime.service.compat.cluster import vm_of
from gpuruntime.service.errors import InvalidRequestError
from gpuruntime.web.resources.functions import function_view
from gpuruntime.web.resources.gpu_storages import storage_view
from gpuruntime.web.resources.masking import masked, redacted_for, reject_masks
from gpuruntime.web.resources.unit_models import unit_view


def unit(template: UnitTemplate, message: str = "", *, generation: int = 1) -> GPUUnit:
    status = GPUUnitStatus(
        conditions=(Condition("Ready", "False", "PodStartupFailed", message),), observed_generation=1
    )
    meta = ObjectMeta(name="a", namespace="n", generation=generation)
    return GPUUnit(meta, GPUUnitSpec("g1", image="i", template=template), status)


def test_values_are_masked_but_not_names_and_numbers() -> None:
    source = EnvSource(secret_key_ref=KeyReference("tokens", "main"))
    template = UnitTemplate(
        command=("serve",),
        args=("--a", "--b"),
        envs=(UnitEnv("A", "one"), UnitEnv("B", ""), UnitEnv("C"), UnitEnv("D", value_from=source)),
        readiness_probe=ReadinessProbe(HttpGetCheck(80, "/?key=k", http_headers=(HttpHeader("X", "y"),))),
        extra=FrozenDict({"later": "unknown"}),
    )

    view = masked(unit_view(unit(template), Namespaces()))

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


def test_a_value_that_a_message_quotes_is_masked() -> None:
    template = UnitTemplate(command=("serve --key",), envs=(UnitEnv("A", "serve --key=of-mine"), UnitEnv("B", "no")))
    said = 'exec: "serve --key": not found, serve --key=of-mine'

    view = masked(unit_view(unit(template, said), Namespaces()))

    assert view.message == 'exec: "***": not found, ***'


def test_every_condition_of_a_function_is_masked_and_so_is_what_its_queue_waits_for() -> None:
    spec = GPUFunctionSpec("g1", template=UnitTemplate(args=("--key=of-mine",)))
    said = 'exec: "--key=of-mine": not found'
    conditions = (Condition("Ready", "False", "StartsStopped", said), Condition("Other", "True", "Why", said))
    status = GPUFunctionStatus(conditions=conditions, observed_generation=1)
    view = function_view(GPUFunction(ObjectMeta(name="a", namespace="n", generation=1), spec, status))

    shown = masked(view)

    assert [condition.message for condition in shown.conditions] == ['exec: "***": not found'] * 2
    assert [condition.reason for condition in shown.conditions] == ["StartsStopped", "Why"]
    assert redacted_for(Caller("reader", Scope.READ), said, view) == 'exec: "***": not found'
    assert redacted_for(Caller("writer", Scope.WRITE), said, view) == said


def test_a_body_with_the_mask_as_a_value_is_rejected_by_field() -> None:
    template = UnitTemplate(args=("a", "***"), envs=(UnitEnv("***", "b"), UnitEnv("C", "***")))
    body = decode(UpdateUnitBody, {"template": encode(template)})

    with pytest.raises(InvalidRequestError) as caught:
        reject_masks(body)

    assert [found.path for found in caught.value.violations] == [
        "template.args[1]",
        "template.envs[1].value",
    ]


@pytest.mark.parametrize(
    ("command", "quoted"),
    [
        ('export T="hunter2"; run', 'sh: "export T=\\"hunter2\\"; run": not found'),
        ("first hunter2\nsecond", 'exec: "first hunter2\\nsecond": not found'),
        ("first hunter2\nsecond", "exec: first hunter2 second: not found"),
        ("serve --key=hunter2 and much more", "exec: serve --key=hunter2 an…"),
        ("serve --and --much --key=hunter2", "exit code 1: …d --much --key=hunter2 is wrong"),
        ("/ready?key=hunter2 {x}", 'Get "http://198.18.0.2:80/ready?key=hunter2%20%7Bx%7D": refused'),
    ],
    ids=["with escapes", "a line break with escapes", "on one line", "cut off", "without its beginning", "in a URL"],
)
def test_a_value_is_masked_however_a_message_quotes_it(command: str, quoted: str) -> None:
    template = UnitTemplate(command=(command,))

    view = masked(unit_view(unit(template, quoted), Namespaces()))

    assert view.message is not None
    assert "hunter2" not in view.message
    assert "***" in view.message


def test_a_message_about_an_earlier_spec_is_masked_whole() -> None:
    template = UnitTemplate(command=("serve --key=new",))

    view = masked(unit_view(unit(template, "exec: serve --key=hunter2: not found", generation=2), Namespaces()))

    assert view.message == "***"


def test_the_message_of_a_vm_is_masked() -> None:
    template = UnitTemplate(command=("serve --key=hunter2",))
    troubled = unit(template, 'exec: "serve --key=hunter2": not found')

    assert vm_of(troubled).message == 'exec: "***": not found'


def test_the_message_of_a_preparation_is_masked_too() -> None:
    prepare = StoragePrepare("tool", args=("--token=hunter2",))
    status = GPUStorageStatus(
        prepare=PrepareStatus(phase="Failed", message="tool: bad --token=hunter2"), observed_generation=1
    )
    storage = GPUStorage(ObjectMeta(name="data", generation=1), GPUStorageSpec("1Gi", prepare=prepare), status)

    view = masked(storage_view(storage))

    assert (view.prepare is not None and view.prepare.args) == ("***",)
    assert (view.prepare_status is not None and view.prepare_status.message) == "tool: bad ***"
