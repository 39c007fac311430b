from attrs import evolve
from hypothesis import given

from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec, UnitAccess
from gpuruntime.api.unit_template import UnitPort, UnitTemplate
from gpuruntime.meta.canonical import known_fields
from gpuruntime.meta.codec import decode, encode
from gpuruntime.meta.frozen_mapping import FrozenDict
from tests.desired.unit_strategies import units


def test_server_defaults_change_nothing() -> None:
    left_out = {"specName": "g1.1", "template": {"ports": [{"name": "http", "port": 80}]}}
    port = {"name": "http", "port": 80, "protocol": "TCP"}
    filled_in = {
        "specName": "g1.1",
        "gpu": 0,
        "access": {"scheme": "http"},
        "template": {"ports": [port]},
        "image": None,
    }

    assert known_fields(decode(GPUUnitSpec, filled_in)) == known_fields(decode(GPUUnitSpec, left_out)) == left_out


def test_fields_of_another_version_change_nothing() -> None:
    port = UnitPort("http", 80, extra=FrozenDict({"appProtocol": "h2c"}))
    spec = GPUUnitSpec("g1.1", template=UnitTemplate(ports=(port,)), extra=FrozenDict({"storage": "1Ti"}))

    assert known_fields(spec) == {"specName": "g1.1", "template": {"ports": [{"name": "http", "port": 80}]}}


def test_a_field_that_differs_from_its_default_is_included() -> None:
    spec = GPUUnitSpec("g1.1", access=UnitAccess(scheme="https"), node_selector=FrozenDict({"zone": "a"}))

    assert known_fields(spec) == {
        "specName": "g1.1",
        "access": {"scheme": "https"},
        "nodeSelector": {"zone": "a"},
    }


@given(units())
def test_no_field_of_a_spec_is_lost(unit: GPUUnit) -> None:
    known = known_fields(unit.spec)

    assert decode(GPUUnitSpec, known) == unit.spec
    assert known == encode(unit.spec)


@given(units(), units())
def test_different_specs_have_different_forms(one: GPUUnit, other: GPUUnit) -> None:
    assert (known_fields(one.spec) == known_fields(other.spec)) == (one.spec == other.spec)
    assert known_fields(evolve(one.spec, gpu=one.spec.gpu + 1)) != known_fields(one.spec)
