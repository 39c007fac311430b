from pathlib import Path

import pytest
from attrs import evolve

from gpuruntime.testing.node.cgroups import Hierarchy
from gpuruntime.testing.node.requirements import Machine, shortcoming

CAPABLE = Machine(
    platform="linux",
    user=0,
    programs=frozenset({"unshare", "nsenter", "mount", "ip", "nft", "runc", "busybox"}),
    hierarchies=(Hierarchy(Path("/sys/fs/cgroup"), 2),),
    controllers=frozenset({"cpu", "cpuset", "memory", "pids"}),
)


def test_a_capable_machine_lacks_nothing() -> None:
    assert shortcoming(CAPABLE) is None


@pytest.mark.parametrize(
    ("machine", "named"),
    [
        (evolve(CAPABLE, platform="darwin"), ["Linux", "darwin"]),
        (evolve(CAPABLE, user=1000), ["root", "1000"]),
        (evolve(CAPABLE, programs=CAPABLE.programs - {"runc", "nft"}), ["apt-get install", "runc", "nftables"]),
        (evolve(CAPABLE, controllers=frozenset({"cpu", "cpuset", "pids"})), ["memory", "/sys/fs/cgroup"]),
        (evolve(CAPABLE, unshare=lambda: "Operation not permitted"), ["namespaces", "Operation not permitted"]),
    ],
    ids=["platform", "user", "programs", "cgroups", "namespaces"],
)
def test_what_is_missing_is_one_sentence_with_a_remedy(machine: Machine, named: list[str]) -> None:
    problem = shortcoming(machine)

    assert problem is not None
    assert all(word in problem for word in named)
    assert "\n" not in problem


def test_nothing_is_tried_on_a_machine_that_lacks_something_else() -> None:
    def forbidden() -> str:
        raise AssertionError("namespaces were made")

    assert shortcoming(evolve(CAPABLE, user=1000, unshare=forbidden)) is not None
