import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.meta.names import clamp, is_dns_label, is_dns_subdomain

long_labels = st.from_regex(r"[a-z0-9][-a-z0-9]{0,150}[a-z0-9]", fullmatch=True)
long_subdomains = st.from_regex(
    r"[a-z0-9]([-a-z0-9]{0,9}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,9}[a-z0-9])?){0,30}", fullmatch=True
)


@pytest.mark.parametrize(
    ("name", "label", "subdomain"),
    [
        ("a", True, True),
        ("a-1", True, True),
        ("1a", True, True),
        ("a" * 63, True, True),
        ("a" * 64, False, True),
        ("a.b", False, True),
        ("a" * 253, False, True),
        ("a" * 254, False, False),
        ("", False, False),
        ("-a", False, False),
        ("a-", False, False),
        ("A", False, False),
        ("a_b", False, False),
        ("a..b", False, False),
        (".a", False, False),
        ("a\n", False, False),
        ("é", False, False),
    ],
)
def test_names_are_checked_as_kubernetes_checks_them(name: str, label: bool, subdomain: bool) -> None:
    assert (is_dns_label(name), is_dns_subdomain(name)) == (label, subdomain)


@given(long_labels, st.integers(12, 63))
def test_a_clamped_label_is_a_label_within_the_limit(name: str, limit: int) -> None:
    clamped = clamp(name, limit)

    assert len(clamped) <= limit
    assert is_dns_label(clamped)
    assert clamp(clamped, limit) == clamped


@given(long_subdomains, st.integers(12, 253))
def test_a_clamped_subdomain_is_a_subdomain_within_the_limit(name: str, limit: int) -> None:
    clamped = clamp(name, limit)

    assert len(clamped) <= limit
    assert is_dns_subdomain(clamped)


@pytest.mark.parametrize("seam", [".", "-", "a-.", "-."])
def test_a_cut_at_a_dot_or_a_dash_leaves_a_valid_name(seam: str) -> None:
    cut_after_seam = "a" * (52 - len(seam)) + seam + "b" * 40

    assert is_dns_subdomain(clamp(cut_after_seam))


def test_a_name_that_fits_is_unchanged() -> None:
    assert clamp("a" * 63) == "a" * 63


def test_long_names_that_differ_at_the_end_stay_different() -> None:
    assert clamp("a" * 100 + "1") != clamp("a" * 100 + "2")


def test_the_result_is_the_same_in_every_version_of_this_library() -> None:
    assert clamp("a" * 64) == "a" * 52 + "-ffe054fe7a"


def test_a_limit_without_room_for_the_hash_is_rejected() -> None:
    with pytest.raises(ValueError, match="12, got 11"):
        clamp("a" * 64, 11)
