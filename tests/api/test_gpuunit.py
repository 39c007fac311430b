from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec, GPUUnitStatus
from gpuruntime.api.unit_template import UnitEnv, UnitPort, UnitTemplate
from gpuruntime.meta.codec import decode, encode
from gpuruntime.meta.objects import ObjectMeta


def test_a_minimal_unit_has_defaults_for_everything_else() -> None:
    unit = decode(GPUUnit, {"metadata": {"name": "a"}, "spec": {"specName": "g1.1"}})

    assert unit == GPUUnit(ObjectMeta(name="a"), GPUUnitSpec("g1.1"))
    assert unit.spec.gpu == 0
    assert unit.spec.template.ports == ()
    assert unit.spec.access.scheme == "http"
    assert unit.status == GPUUnitStatus()


def test_defaults_set_by_the_server_equal_omitted_fields() -> None:
    port = {"name": "http", "port": 80}
    filled_in = {"specName": "g1.1", "gpu": 0, "template": {"ports": [{**port, "protocol": "TCP"}]}, "access": {}}

    unit = decode(GPUUnit, {"metadata": {"name": "a"}, "spec": filled_in})

    assert unit.spec.template.ports[0].protocol == UnitPort("http", 80).protocol
    assert encode(unit)["spec"] == filled_in


def test_quantities_may_be_numbers_or_strings() -> None:
    unit = decode(GPUUnit, {"metadata": {"name": "a"}, "spec": {"specName": "g1.1", "cpu": 2, "memory": "1Gi"}})

    assert (unit.spec.cpu, unit.spec.memory) == (2, "1Gi")


def test_a_unit_that_was_stored_before_a_rule_can_be_read() -> None:
    spec = {"specName": "", "memory": "lots", "gpu": -3, "access": {"scheme": "gopher"}}

    unit = decode(GPUUnit, {"metadata": {"name": "a"}, "spec": spec})

    assert encode(unit)["spec"] == spec


def test_the_repr_hides_the_value_of_a_variable() -> None:
    spec = GPUUnitSpec("g1.1", template=UnitTemplate(envs=(UnitEnv("TOKEN", "s3cret"),)))

    assert "s3cret" not in repr(spec)
