"""What a real node shares with this machine, and what it might change there.

Nodes of other tests may run meanwhile, with other numbers.
"""

import re
import subprocess
from pathlib import Path
from typing import Final

from attrs import frozen

from gpuruntime.testing.node import cgroups
from gpuruntime.testing.node.addresses import Addresses
from gpuruntime.testing.node.requirements import find_program

__all__ = ["NOTHING", "Process", "Settings", "Traces", "descendants", "processes", "settings", "traces"]

# Where a kubelet, containerd, runc and the network plugins write by default.
_DIRECTORIES: Final = [
    *("/etc/cdi", "/etc/cni", "/etc/containerd", "/etc/kubernetes", "/opt/cni", "/opt/containerd", "/opt/nri"),
    *("/run/cdi", "/run/cni", "/run/containerd", "/run/kernel-settings", "/run/kubernetes", "/run/nri", "/run/runc"),
    *("/usr/libexec/kubernetes", "/var/lib/cni", "/var/lib/containerd", "/var/lib/kubelet"),
    *("/var/log/containers", "/var/log/pods"),
]
_KERNEL: Final = [
    *("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys"),
    *("net/ipv4/ip_forward", "net/ipv4/conf/all/route_localnet"),
]

_STAT: Final = re.compile(r"(\d+) \((.*)\) (.*)\n", re.DOTALL)


@frozen
class Settings:
    """Parts of the machine that no node changes."""

    hostname: str
    nftables: str
    kernel: tuple[str, ...]
    directories: tuple[str, ...]


@frozen
class Traces:
    """Parts of the machine that belong to one node."""

    links: tuple[str, ...]
    routes: tuple[str, ...]
    cgroups: tuple[str, ...]
    mounts: tuple[str, ...]


NOTHING: Final = Traces(links=(), routes=(), cgroups=(), mounts=())


def settings() -> Settings:
    return Settings(
        hostname=_output("hostname"),
        nftables=_output(find_program("nft") or "nft", "list", "ruleset"),
        kernel=tuple(Path("/proc/sys", name).read_text() for name in _KERNEL),
        directories=tuple(path for path in _DIRECTORIES if Path(path).exists()),
    )


def traces(number: int, directory: Path) -> Traces:
    """The traces of the node with this number whose files are in `directory`."""
    addresses = Addresses(number)
    name = addresses.cgroup.removeprefix("/")
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return Traces(
        links=tuple(path.name for path in Path("/sys/class/net").iterdir() if path.name == addresses.link),
        routes=tuple(_output("ip", "route", "show", addresses.pods).splitlines()),
        cgroups=tuple(str(path) for one in cgroups.hierarchies() for path in one.path.glob(name)),
        mounts=tuple(line for line in mounts if str(directory) in line),
    )


@frozen
class Process:
    """A process, which a later one with the same number does not equal."""

    number: int
    name: str
    parent: int
    started: int


def processes() -> list[Process]:
    """The processes of the machine, without those that have ended and wait for their parent to notice."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            match = _STAT.fullmatch(path.read_text())
        except OSError:  # it has ended meanwhile
            continue
        assert match is not None
        number, name, fields = match.groups()
        state, parent, *rest = fields.split()
        if state not in "ZX":
            found.append(Process(int(number), name, int(parent), int(rest[17])))
    return found


def descendants(number: int) -> set[Process]:
    """A process and everything below it: for the process 1 of a node, all processes of the node."""
    everything = processes()
    below, numbers = set[Process](), {number}
    while True:
        found = {one for one in everything if one.number == number or one.parent in numbers}
        if found == below:
            return below
        below, numbers = found, {one.number for one in found}


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
