"""What is refused before anything is stored."""

import pytest
from attrs import evolve

from gpuruntime.api.namespaces import Namespaces
from gpuruntime.api.operation import CREATE_GPU_UNIT, SEED_STOCK_UNITS
from gpuruntime.meta import decode, encode
from gpuruntime.service.errors import InvalidRequestError
from gpuruntime.service.operations.record import request_hash
from gpuruntime.service.operations.requests import CreateUnit, Envelope, SeedStock, check_create, check_seed

NAMESPACES = Namespaces()
SEED = SeedStock(Envelope("g1.1", memory="16Gi", gpu=1), 2)
CREATE = CreateUnit("demo", "g1.1", "nginx")


@pytest.mark.parametrize("request_", [SEED, CREATE])
def test_a_request_comes_back_from_its_operation_as_it_was(request_: SeedStock | CreateUnit) -> None:
    stored = encode(request_)

    assert decode(type(request_), stored) == request_


def test_all_that_is_wrong_with_a_request_is_told_at_once() -> None:
    wrong = evolve(CREATE, name="Not/a name", namespace="runtime-stock", stock_namespace="default", cold_start=True)

    with pytest.raises(InvalidRequestError) as caught:
        check_create(wrong, NAMESPACES)

    assert [problem.partition(":")[0] for problem in caught.value.problems] == [
        "name",
        "namespace",
        "stockNamespace",
        "envelope",
    ]


def test_good_requests_pass() -> None:
    cold = evolve(CREATE, cold_start=True, envelope=Envelope("g1.1"))

    check_create(CREATE, NAMESPACES)
    check_create(cold, NAMESPACES)
    check_seed(SEED, NAMESPACES)


@pytest.mark.parametrize("wrong", [evolve(SEED, replicas=0), evolve(SEED, replicas=1000), evolve(SEED, namespace="x")])
def test_a_batch_that_cannot_be_made_is_refused(wrong: SeedStock) -> None:
    with pytest.raises(InvalidRequestError, match=r"replicas: expected 1 to 999|namespace: expected a stock namespace"):
        check_seed(wrong, NAMESPACES)


def test_capacity_that_no_unit_can_have_is_refused_before_it_is_stored() -> None:
    absurd = Envelope("g1.1", memory="1e30")

    with pytest.raises(InvalidRequestError, match="memory"):
        check_seed(evolve(SEED, envelope=absurd), NAMESPACES)
    with pytest.raises(InvalidRequestError, match="memory"):
        check_create(evolve(CREATE, cold_start=True, envelope=absurd), NAMESPACES)


def test_an_envelope_without_a_cold_start_is_refused_because_the_stock_unit_has_it() -> None:
    wrong = evolve(CREATE, envelope=Envelope("g1.1"))

    with pytest.raises(InvalidRequestError, match="envelope: expected none without coldStart"):
        check_create(wrong, NAMESPACES)


def test_a_unit_is_refused_where_nobody_would_look_after_it() -> None:
    with pytest.raises(InvalidRequestError, match=r"namespace: expected one for active units \(runtime-instance\)"):
        check_create(evolve(CREATE, namespace="default"), NAMESPACES)

    check_create(CREATE, NAMESPACES)


def test_the_hash_of_a_request_depends_on_all_of_it_and_on_its_type() -> None:
    known = request_hash(CREATE_GPU_UNIT, CREATE)

    assert request_hash(CREATE_GPU_UNIT, evolve(CREATE)) == known
    assert request_hash(CREATE_GPU_UNIT, evolve(CREATE, image="other")) != known
    assert request_hash(SEED_STOCK_UNITS, CREATE) != known
