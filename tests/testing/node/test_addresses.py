import ipaddress
import itertools
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from gpuruntime.testing.node.addresses import NUMBERS, Addresses, NoFreeNumberError, ReservedNumber

TESTS = ipaddress.IPv4Network("198.18.0.0/15")
LONGEST_LINK_NAME = 15
# No node of this machine has such a number: they are for locks only.
UNUSED = range(1001, 1004)


def networks(addresses: Addresses) -> list[ipaddress.IPv4Network]:
    link = ipaddress.IPv4Interface(f"{addresses.machine}/30").network
    assert ipaddress.ip_address(addresses.node) in link
    return [ipaddress.IPv4Network(addresses.pods), link]


def test_the_networks_of_all_nodes_are_apart_and_in_the_range_for_tests() -> None:
    everything = [network for number in NUMBERS for network in networks(Addresses(number))]

    assert all(network.subnet_of(TESTS) for network in everything)
    ordered = sorted(everything)
    assert not any(one.overlaps(other) for one, other in itertools.pairwise(ordered))


def test_the_name_of_every_link_is_short_enough_for_the_kernel() -> None:
    assert max(len(Addresses(number).link) for number in NUMBERS) <= LONGEST_LINK_NAME


def is_free(number: int) -> bool:
    reserved = ReservedNumber.try_reserve(number)
    if reserved is not None:
        reserved.close()
    return reserved is not None


@pytest.fixture
def first() -> Iterator[ReservedNumber]:
    reserved = ReservedNumber.first_free(UNUSED)
    yield reserved
    reserved.close()


def test_each_node_has_a_number_of_its_own_until_it_ends(first: ReservedNumber) -> None:
    second = ReservedNumber.first_free(UNUSED)
    assert [first.addresses.number, second.addresses.number] == [1001, 1002]
    assert not is_free(1002)

    second.close()

    assert is_free(1002)
    assert not is_free(1001)


def test_a_number_is_free_when_the_last_process_that_inherits_it_has_ended(first: ReservedNumber) -> None:
    wait = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(wait, stdin=subprocess.PIPE, pass_fds=(first.descriptor,)) as child:
        first.close()
        assert not is_free(1001)
        child.kill()

    assert is_free(1001)


def test_no_free_number_is_an_error(first: ReservedNumber) -> None:
    with pytest.raises(NoFreeNumberError):
        ReservedNumber.first_free([first.addresses.number])


def test_a_lock_leaves_no_file(first: ReservedNumber) -> None:
    with socket.socket(fileno=socket.dup(first.descriptor)) as lock:
        assert lock.getsockname().startswith(b"\0")
