"""Validation of seed requests."""

import pytest
from attrs import evolve

from gpuruntime.api.envelope import Reservation
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.meta import decode, encode
from gpuruntime.service.errors import InvalidRequestError
from gpuruntime.service.stock.seed import SeedStock, check_seed

ROLES = Namespaces()
SEED = SeedStock(Reservation("g1.1", memory="16Gi", gpu=1), 2)


def test_a_request_is_decoded_from_its_operation_unchanged() -> None:
    assert decode(SeedStock, encode(SEED)) == SEED


def test_a_valid_request_passes() -> None:
    check_seed(SEED, ROLES)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (evolve(SEED, replicas=0), "replicas"),
        (evolve(SEED, replicas=1000), "replicas"),
        (evolve(SEED, namespace="x"), "namespace"),
    ],
)
def test_an_invalid_batch_is_refused(wrong: SeedStock, field: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        check_seed(wrong, ROLES)

    assert [violation.path for violation in refused.value.violations] == [field]


def test_an_invalid_envelope_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="memory"):
        check_seed(evolve(SEED, reservation=Reservation("g1.1", memory="1e30")), ROLES)
