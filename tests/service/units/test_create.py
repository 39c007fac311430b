"""Validation of create requests."""

import pytest
from attrs import evolve

from gpuruntime.api.gpuunit import GPUUnitSpec
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.meta import decode, encode
from gpuruntime.service.errors import InvalidRequestError
from gpuruntime.service.units.create import CreateUnit, check_create

NAMESPACES = Namespaces()
CREATE = CreateUnit("demo", GPUUnitSpec("g1.1", image="nginx"))


def test_a_request_is_decoded_from_its_operation_unchanged() -> None:
    assert decode(CreateUnit, encode(CREATE)) == CREATE


def test_all_violations_of_a_request_are_reported_at_once() -> None:
    wrong = evolve(CREATE, name="Not/a name", namespace="runtime-stock", stock_namespace="default")

    with pytest.raises(InvalidRequestError) as caught:
        check_create(wrong, NAMESPACES)

    assert [found.path for found in caught.value.violations] == [
        "name",
        "namespace",
        "stockNamespace",
    ]


def test_valid_requests_pass() -> None:
    cold = evolve(CREATE, cold_start=True, spec=evolve(CREATE.spec, memory="16Gi"))

    check_create(CREATE, NAMESPACES)
    check_create(cold, NAMESPACES)


def test_an_invalid_envelope_is_refused() -> None:
    absurd = evolve(CREATE.spec, memory="1e30")

    with pytest.raises(InvalidRequestError, match="memory"):
        check_create(evolve(CREATE, cold_start=True, spec=absurd), NAMESPACES)


def test_a_unit_is_refused_in_a_namespace_that_no_controller_watches() -> None:
    with pytest.raises(InvalidRequestError, match=r"namespace: .*\(runtime-instance\)"):
        check_create(evolve(CREATE, namespace="default"), NAMESPACES)

    check_create(CREATE, NAMESPACES)
