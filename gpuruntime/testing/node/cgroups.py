"""The cgroups of real nodes: one per node and hierarchy, named after the node's number."""

import contextlib
import os
import re
import time
from collections.abc import Iterable
from pathlib import Path

from attrs import frozen

from gpuruntime.testing.node.addresses import Addresses, ReservedNumber
from gpuruntime.testing.node.mounts import mounts

__all__ = ["Hierarchy", "hierarchies", "make", "remove", "sweep", "uses_v1"]

_NAME = re.compile(r"gpurt-(\d+)")
# What the kubelet requires of a cgroup that holds pods, on a machine with version 2.
_UNIFIED = ("cpu", "cpuset", "memory", "hugetlb", "pids", "io")
_EMPTY_SECONDS = 10.0


@frozen
class Hierarchy:
    """A mounted hierarchy: version 1 has one per controller, version 2 one for all. `options` names controllers."""

    path: Path
    version: int
    options: frozenset[str] = frozenset()


def hierarchies(mountinfo: str | None = None) -> tuple[Hierarchy, ...]:
    """The hierarchies of /proc/self/mountinfo, or of its given text."""
    versions = {"cgroup": 1, "cgroup2": 2}
    found = (mount for mount in mounts(mountinfo) if mount.kind in versions)
    return tuple(Hierarchy(mount.path, versions[mount.kind], mount.options) for mount in found)


def uses_v1(mounted: Iterable[Hierarchy]) -> bool:
    """Whether memory is controlled by version 1. Version 2 may be mounted beside it, without controllers."""
    return any(one.version == 1 and "memory" in one.options for one in mounted)


def make(addresses: Addresses, mounted: Iterable[Hierarchy]) -> None:
    """Create the cgroup of a node in each hierarchy; one that exists stays as it is."""
    mounted = tuple(mounted)
    for one in mounted:
        cgroup = _cgroup(one, addresses)
        if one.version == 1:
            cgroup.mkdir(exist_ok=True)
            if "cpuset" in one.options:
                for name in ("cpuset.cpus", "cpuset.mems"):  # empty in a new cgroup, which then takes no process
                    (cgroup / name).write_text((one.path / name).read_text())
        elif not uses_v1(mounted):
            cgroup.mkdir(exist_ok=True)
            for directory in (one.path, cgroup):
                _pass_on(directory)


def remove(addresses: Addresses, mounted: Iterable[Hierarchy]) -> None:
    """Remove the cgroups of a node whose processes have ended. Waits for the kernel to notice their ends.

    Raises:
        OSError: a cgroup still holds processes.
    """
    deadline = time.monotonic() + _EMPTY_SECONDS
    for one in mounted:
        root = _cgroup(one, addresses)
        # Below a cgroup there are files as well, which are not removed, and cgroups, which are: children first.
        for directory, _, _ in os.walk(root, topdown=False) if root.exists() else ():
            _remove_directory(Path(directory), deadline)


def sweep(mounted: Iterable[Hierarchy]) -> None:
    """Remove the cgroups of nodes that were killed together with their keepers: those whose number is free."""
    mounted = tuple(mounted)
    names = {match for one in mounted for path in one.path.glob("gpurt-*") if (match := _NAME.fullmatch(path.name))}
    for number in sorted({int(match[1]) for match in names}):
        reserved = ReservedNumber.try_reserve(number)
        if reserved is None:
            continue
        # Reserved until we are done, so that no new node takes the number. Processes of the killed one may still end.
        with contextlib.closing(reserved), contextlib.suppress(OSError):
            remove(reserved.addresses, mounted)


def _cgroup(hierarchy: Hierarchy, addresses: Addresses) -> Path:
    return hierarchy.path / addresses.cgroup.removeprefix("/")


def _pass_on(directory: Path) -> None:
    """Pass on to child cgroups what pods need, and what the cgroup itself has; the rest stays as it is."""
    available = (directory / "cgroup.controllers").read_text().split()
    control = directory / "cgroup.subtree_control"
    enabled = control.read_text().split()
    wanted = [f"+{name}" for name in _UNIFIED if name in available and name not in enabled]
    if wanted:
        control.write_text(" ".join(wanted))


def _remove_directory(directory: Path, deadline: float) -> None:
    while True:
        try:
            directory.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)  # an emptied cgroup has no event on version 1
        else:
            return
