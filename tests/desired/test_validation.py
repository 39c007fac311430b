import re

import pytest
from hypothesis import given

from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.api.unit_template import EnvSource, UnitEnv, UnitTemplate
from gpuruntime.desired.rendering import Rendering
from gpuruntime.desired.units.deployment import unit_deployment
from gpuruntime.desired.validation import spec_violations
from gpuruntime.meta.codec import decode
from gpuruntime.meta.objects import ObjectMeta
from gpuruntime.schema import CHECK, violations
from tests.api.invalid_specs import ACCEPTED_BY_SERVER, REJECTED_BY_SERVER, InvalidSpec, unit_with
from tests.desired.unit_strategies import units
from tests.desired.valid_units import valid_units


@pytest.mark.parametrize("invalid", [*REJECTED_BY_SERVER, *ACCEPTED_BY_SERVER], ids=lambda invalid: invalid.name)
def test_a_violation_names_its_field(invalid: InvalidSpec) -> None:
    unit = decode(GPUUnit, unit_with(invalid.spec, "runtime-instance"))

    found = spec_violations(unit.spec)

    assert {re.sub(r"\[\d+\]", "", violation.path) for violation in found} == {invalid.path}


@pytest.mark.parametrize("invalid", REJECTED_BY_SERVER, ids=lambda invalid: invalid.name)
def test_the_server_has_a_rule_against_what_it_rejects(invalid: InvalidSpec) -> None:
    found = violations(unit_with(invalid.spec, "runtime-instance"), GPUUnit)

    assert {violation.rule for violation in found} - {CHECK}


@pytest.mark.parametrize("invalid", ACCEPTED_BY_SERVER, ids=lambda invalid: invalid.name)
def test_what_the_server_accepts_violates_only_rules_in_python(invalid: InvalidSpec) -> None:
    found = violations(unit_with(invalid.spec, "runtime-instance"), GPUUnit)

    assert {violation.rule for violation in found} == {CHECK}


def test_fields_of_a_newer_version_are_no_violation() -> None:
    unit = decode(GPUUnit, unit_with({"shmSize": "1Gi", "access": {"path": "/"}}, "runtime-instance"))

    assert spec_violations(unit.spec) == ()


def test_a_violation_has_the_found_and_the_expected_value() -> None:
    unit = decode(GPUUnit, unit_with({"gpu": -1, "memory": "lots"}, "runtime-instance"))

    memory, gpu = spec_violations(unit.spec)

    assert (memory.path, memory.found) == ("spec.memory", '"lots"')
    assert all(bound in memory.expected for bound in ("1Mi", "1Pi"))
    assert (gpu.path, gpu.rule, gpu.found) == ("spec.gpu", "minimum", "-1")


def test_no_violation_quotes_a_value_that_may_be_secret() -> None:
    envs = (UnitEnv("1", "s3cret", EnvSource()), UnitEnv("GPU_COUNT", "s3cret"))
    unit = GPUUnit(ObjectMeta(name="a", namespace="b"), GPUUnitSpec("g1.1", template=UnitTemplate(envs=envs)))

    found = "; ".join(map(str, spec_violations(unit.spec)))

    assert found
    assert "s3cret" not in found


def test_a_long_value_is_truncated() -> None:
    unit = GPUUnit(ObjectMeta(name="a", namespace="b"), GPUUnitSpec("g 1" * 1000))

    (violation,) = spec_violations(unit.spec)

    assert len(str(violation)) < 250


@given(units())
def test_the_violations_of_any_stored_spec_can_be_formatted(unit: GPUUnit) -> None:
    found = spec_violations(unit.spec)

    assert all(str(violation).startswith("spec") for violation in found)


@given(valid_units())
def test_a_valid_unit_has_no_violations_and_renders(unit: GPUUnit) -> None:
    found = spec_violations(unit.spec)

    assert found == ()
    assert unit_deployment(unit, Rendering()).spec.replicas == 1
