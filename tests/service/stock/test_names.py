"""Names of seeded stock units."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.api.rest.stock_units import LARGEST_BATCH
from gpuruntime.meta import is_dns_label
from gpuruntime.service.stock.names import batch_name, stock_name


def test_a_batch_is_named_after_its_spec_and_its_operation() -> None:
    batch = batch_name("G1.1_x", "stock-g1-demo-001")

    assert batch == "stock-g1-1-x-c971ef1c0e"
    assert stock_name(batch, 7) == f"{batch}-007"


@given(spec=st.text(max_size=80), operation=st.text(min_size=1, max_size=300), ordinal=st.integers(1, LARGEST_BATCH))
def test_every_name_is_valid_and_two_operations_never_share_one(spec: str, operation: str, ordinal: int) -> None:
    name = stock_name(batch_name(spec, operation), ordinal)

    other = stock_name(batch_name(spec, operation + "x"), ordinal)

    assert is_dns_label(name)
    assert name != other


@pytest.mark.parametrize("ordinal", [0, LARGEST_BATCH + 1])
def test_an_ordinal_out_of_range_is_refused(ordinal: int) -> None:
    batch = batch_name("g1", "a")

    with pytest.raises(ValueError, match=f"1 to {LARGEST_BATCH}, got {ordinal}"):
        stock_name(batch, ordinal)
