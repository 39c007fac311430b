from decimal import Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.utils.quantity import parse_quantity as official

from gpuruntime.meta.quantities import Notation, Quantity, QuantityError, parse_quantity

# From TestQuantityString of k8s.io/apimachinery v0.36.3, plus results of its String().
CANONICAL = [
    ("1024Mi", "1Gi"),
    ("307200Ki", "300Mi"),
    ("6Ki", "6Ki"),
    ("1025024Mi", "1001Gi"),
    ("1024Gi", "1Ti"),
    ("5000m", "5"),
    ("0.5", "500m"),
    ("1000M", "1G"),
    ("0.001T", "1G"),
    ("1000u", "1m"),
    ("1.08", "1080m"),
    ("1080000000n", "1080m"),
    ("1234567M", "1234567M"),
    ("0.000000000001Ki", "2n"),
    ("1.5Gi", "1536Mi"),
    ("100.035Ki", "102435840m"),
    ("1000Ki", "1000Ki"),
    ("0.5Ki", "512"),
    ("0.9765625Ki", "1k"),
    (".001e12", "1e9"),
    ("0.001e0", "1e-3"),
    ("1000e-12", "1e-9"),
    ("80e-3", "80e-3"),
    ("1e3", "1e3"),
    ("12e2", "1200"),
    ("00", "0"),
    ("0Gi", "0"),
    ("-0", "0"),
    ("-1.5Gi", "-1536Mi"),
    ("+2k", "2k"),
    ("2000", "2k"),
    ("9Ei", "9223372036854775807"),
    ("9223372036854775807Ki", "9223372036854775807"),
    ("-9Ei", "-9223372036854775807"),
    ("8191Pi", "8191Pi"),
    ("12E", "12E"),
]

# From TestQuantityParse: amount in nano-units and notation.
PARSED: list[tuple[str, int, Notation]] = [
    ("0Ki", 0, "BinarySI"),
    ("1Ki", 1024 * 10**9, "BinarySI"),
    ("3Ei", 3 * 1024**6 * 10**9, "BinarySI"),
    ("5n", 5, "DecimalSI"),
    ("4u", 4_000, "DecimalSI"),
    ("3m", 3_000_000, "DecimalSI"),
    ("1E", 10**27, "DecimalSI"),
    ("1E-3", 10**6, "DecimalExponent"),
    ("1.3E+6", 13 * 10**14, "DecimalExponent"),
    ("3.001n", 4, "DecimalSI"),
    ("-3.001n", -4, "DecimalSI"),
    ("1.1E-9", 2, "DecimalExponent"),
    ("0.0000000001", 1, "DecimalSI"),
    ("0.00000012345", 124, "DecimalSI"),
    ("0.05Gi", 53687091200000000, "BinarySI"),
    ("0.000000000001Ki", 2, "DecimalSI"),
    ("-0.0001Ki", -102_400_000, "DecimalSI"),
    (".0001k", 10**8, "DecimalSI"),
    ("1.", 10**9, "DecimalSI"),
    ("1.G", 10**18, "DecimalSI"),
]

INVALID = ["1.1.M", "1+1.0M", "0.1mi", "0.1am", "aoeu", ".5i", "1i", "-3.01i", "-3.01e-", " 1", "1 ", "1K", "1e"]

suffixes = st.sampled_from([*"numkMGTPE", "", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-2", "e+9", "e0"])
texts = st.builds(
    lambda sign, whole, fraction, suffix: f"{sign}{whole}{fraction}{suffix}",
    st.sampled_from(["", "+", "-"]),
    st.integers(0, 10**12),
    st.just("") | st.from_regex(r"\.[0-9]{0,12}", fullmatch=True),
    suffixes,
)
notations: st.SearchStrategy[Notation] = st.sampled_from(["DecimalSI", "BinarySI", "DecimalExponent"])
# Below the cap of binary amounts, which does not round-trip.
quantities = st.builds(Quantity, st.integers(-(10**27), 10**27), notations)


@pytest.mark.parametrize(("text", "canonical"), CANONICAL)
def test_texts_are_canonicalised_as_the_api_server_does(text: str, canonical: str) -> None:
    assert parse_quantity(text).canonical() == canonical
    assert parse_quantity(canonical).canonical() == canonical


@pytest.mark.parametrize(("text", "nanos", "notation"), PARSED)
def test_texts_are_parsed_as_the_api_server_does(text: str, nanos: int, notation: Notation) -> None:
    quantity = parse_quantity(text)

    assert (quantity.nanos, quantity.notation) == (nanos, notation)


@pytest.mark.parametrize("text", [*INVALID, "", ".", "+", "Ki", "1e99999", "9" * 300, "\u0661"])
def test_an_invalid_quantity_is_rejected(text: str) -> None:
    with pytest.raises(QuantityError):
        parse_quantity(text)


@given(quantities)
def test_a_quantity_round_trips_through_text(quantity: Quantity) -> None:
    again = parse_quantity(str(quantity))

    assert again == quantity
    assert str(again) == str(quantity)


@given(texts)
def test_amounts_agree_with_the_official_client_but_for_the_rounding(text: str) -> None:
    # The official client multiplies in the current context, which rounds to 28 digits by default.
    with localcontext(prec=100):
        expected = official(text)

    found = parse_quantity(text).to_decimal()

    assert found == expected or abs(found) == 2**63 - 1 or 0 < abs(found) - abs(expected) < Decimal("1e-9")


@given(quantities, quantities)
def test_order_and_sums_are_those_of_the_amounts(a: Quantity, b: Quantity) -> None:
    assert (a < b, a == b, a > b) == (a.nanos < b.nanos, a.nanos == b.nanos, a.nanos > b.nanos)
    assert (a + b).nanos == a.nanos + b.nanos
    assert a - b == -(b - a)
    assert a + b - b == a


def test_equal_amounts_are_equal_whatever_their_notation() -> None:
    assert parse_quantity("1Ki") == parse_quantity("1024") == parse_quantity("1.024e3")
    assert len({parse_quantity("1"), parse_quantity("1000m"), parse_quantity(1)}) == 1


def test_a_sum_keeps_the_notation_of_its_left_side_unless_that_is_zero() -> None:
    assert str(parse_quantity("1Gi") + parse_quantity("1048576")) == "1025Mi"
    assert str(parse_quantity("0") + parse_quantity("1Gi")) == "1Gi"


@pytest.mark.parametrize(
    ("text", "whole"), [("1", 1), ("1n", 1), ("1500m", 2), ("-1500m", -1), ("0", 0), ("1Ki", 1024)]
)
def test_whole_units_are_rounded_up(text: str, whole: int) -> None:
    assert parse_quantity(text).ceil() == whole


@given(st.text())
def test_no_input_raises_any_other_error(text: str) -> None:
    try:
        parse_quantity(text)
    except QuantityError:
        return
