import pytest

from gpuruntime.control.serving.limits import HttpLimits, address_group, connection_counts


@pytest.mark.parametrize(
    ("open_files", "connections"), [(1, 1), (64, 32), (256, 128), (1024, 768), (20_000, 10_000), (2**30, 10_000)]
)
def test_descriptors_are_reserved_for_other_uses(open_files: int, connections: int) -> None:
    assert connection_counts(HttpLimits(), open_files)[0] == connections
    assert connection_counts(HttpLimits(connections=10_000), open_files)[0] == connections


def test_one_address_gets_three_quarters_by_default() -> None:
    assert connection_counts(HttpLimits(), 256) == (128, 96)
    assert connection_counts(HttpLimits(per_address=10_000), 256) == (128, 128)
    assert connection_counts(HttpLimits(connections=1), 256) == (1, 1)
    assert connection_counts(HttpLimits(connections=40, per_address=5), 256) == (40, 5)


@pytest.mark.parametrize("name", ["connections", "per_address"])
def test_a_limit_below_one_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"HttpLimits.{name}: .*got 0"):
        HttpLimits(**{name: 0})


@pytest.mark.parametrize(
    ("host", "group"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("no address", "no address"),
    ],
)
def test_the_addresses_of_an_ipv6_host_count_as_one(host: str, group: str) -> None:
    assert address_group(host) == group
