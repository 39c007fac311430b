"""Cgroups of both versions, on directories that look like them: only version 1 is at hand on our machines."""

from pathlib import Path

import pytest

from gpuruntime.testing.node import cgroups
from gpuruntime.testing.node.addresses import Addresses, ReservedNumber
from gpuruntime.testing.node.cgroups import Hierarchy

NODE = Addresses(1001)  # a number that no node of this machine has
V1 = """\
30 25 0:26 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
31 25 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
32 25 0:28 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
33 25 0:29 / /proc rw,relatime - proc proc rw
"""
V2 = "24 23 0:22 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"


def test_hierarchies_of_version_1_beside_an_unused_version_2() -> None:
    found = cgroups.hierarchies(V1)

    assert [(str(one.path.name), one.version) for one in found] == [("memory", 1), ("cpu,cpuacct", 1), ("unified", 2)]
    assert {"cpu", "cpuacct"} <= found[1].options
    assert cgroups.uses_v1(found)


def test_the_one_hierarchy_of_version_2() -> None:
    found = cgroups.hierarchies(V2)

    assert [(str(one.path), one.version) for one in found] == [("/sys/fs/cgroup", 2)]
    assert not cgroups.uses_v1(found)


def test_a_cpuset_of_version_1_starts_with_the_processors_of_the_machine(tmp_path: Path) -> None:
    (tmp_path / "cpuset.cpus").write_text("0-1\n")
    (tmp_path / "cpuset.mems").write_text("0\n")

    cgroups.make(NODE, [Hierarchy(tmp_path, 1, frozenset({"rw", "cpuset"}))])

    assert (tmp_path / "gpurt-1001" / "cpuset.cpus").read_text() == "0-1\n"
    assert (tmp_path / "gpurt-1001" / "cpuset.mems").read_text() == "0\n"


def test_version_2_passes_the_missing_controllers_on_to_pods(tmp_path: Path) -> None:
    own = tmp_path / "gpurt-1001"
    own.mkdir()
    for directory, enabled in ((tmp_path, "cpu memory\n"), (own, "\n")):  # the kernel makes these files
        (directory / "cgroup.controllers").write_text("cpuset cpu io memory pids rdma\n")
        (directory / "cgroup.subtree_control").write_text(enabled)

    cgroups.make(NODE, [Hierarchy(tmp_path, 2)])

    assert set((tmp_path / "cgroup.subtree_control").read_text().split()) == {"+cpuset", "+io", "+pids"}
    assert set((own / "cgroup.subtree_control").read_text().split()) == {"+cpu", "+cpuset", "+io", "+memory", "+pids"}


def test_version_2_that_passes_everything_on_is_left_alone(tmp_path: Path) -> None:
    own = tmp_path / "gpurt-1001"
    own.mkdir()
    for directory in (tmp_path, own):
        (directory / "cgroup.controllers").write_text("cpu memory pids\n")
        (directory / "cgroup.subtree_control").write_text("cpu memory pids\n")

    cgroups.make(NODE, [Hierarchy(tmp_path, 2)])

    assert (tmp_path / "cgroup.subtree_control").read_text() == "cpu memory pids\n"


def test_an_unused_version_2_stays_as_it_is(tmp_path: Path) -> None:
    memory, unified = tmp_path / "memory", tmp_path / "unified"
    memory.mkdir()
    unified.mkdir()

    cgroups.make(NODE, [Hierarchy(memory, 1, frozenset({"memory"})), Hierarchy(unified, 2)])

    assert [path.name for path in memory.iterdir()] == ["gpurt-1001"]
    assert list(unified.iterdir()) == []


def test_the_cgroups_of_a_node_are_removed_with_all_below(tmp_path: Path) -> None:
    (tmp_path / "gpurt-1001" / "kubepods" / "besteffort" / "pod").mkdir(parents=True)
    (tmp_path / "gpurt-1002").mkdir()

    cgroups.remove(NODE, [Hierarchy(tmp_path, 1)])

    assert [path.name for path in tmp_path.iterdir()] == ["gpurt-1002"]


def test_a_cgroup_that_still_holds_processes_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "_EMPTY_SECONDS", 0.0)
    (tmp_path / "gpurt-1001").mkdir()
    (tmp_path / "gpurt-1001" / "busy").touch()  # a directory that cannot be removed, as a cgroup with processes

    with pytest.raises(OSError, match="not empty"):
        cgroups.remove(NODE, [Hierarchy(tmp_path, 1)])


def test_a_sweep_removes_cgroups_of_free_numbers_and_nothing_else(tmp_path: Path) -> None:
    for name in ("gpurt-1001", "gpurt-1002", "gpurt-x", "system.slice"):
        (tmp_path / name).mkdir()
    used = ReservedNumber.first_free([1002])
    try:
        cgroups.sweep([Hierarchy(tmp_path, 1)])
    finally:
        used.close()

    assert sorted(path.name for path in tmp_path.iterdir()) == ["gpurt-1002", "gpurt-x", "system.slice"]
