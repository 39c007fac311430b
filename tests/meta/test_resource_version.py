import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.meta.resource_version import ResourceVersionError, compare_versions, newer

# Around and beyond 64 bits, and close together, so that both length and digits matter.
numbers = st.integers(1, 10**40) | st.integers(1, 1200) | st.integers(2**63 - 5, 2**63 + 5)


@given(numbers, numbers)
def test_versions_order_as_the_integers_they_spell(a: int, b: int) -> None:
    assert compare_versions(str(a), str(b)) == (a > b) - (a < b)
    assert newer(str(a), str(b)) == (a > b)


@pytest.mark.parametrize("malformed", ["", "0", "01", "-1", "+1", "1.0", "1e3", " 1", "1\n", "abc", "\u0661", "1_0"])
def test_an_invalid_version_is_not_comparable(malformed: str) -> None:
    with pytest.raises(ResourceVersionError):
        compare_versions(malformed, "1")
    with pytest.raises(ResourceVersionError):
        newer("1", malformed)
