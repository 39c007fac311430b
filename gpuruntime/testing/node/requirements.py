"""What a machine needs for a real node, and what this one lacks."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from attrs import field, frozen

from gpuruntime.testing.cluster.local import ClusterError
from gpuruntime.testing.node import cgroups
from gpuruntime.testing.node.cgroups import Hierarchy

__all__ = ["PACKAGES", "Machine", "RealNodeUnavailableError", "find_program", "require_real_node", "shortcoming"]

# Debian's packages by program.
PACKAGES: Mapping[str, str] = {
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "mount": "mount",
    "ip": "iproute2",
    "nft": "nftables",
    "runc": "runc",
    "busybox": "busybox-static",
}
# Where Debian puts programs of the administrator, which are not on the PATH of every user.
_ADMINISTRATION = ("/usr/local/sbin", "/usr/sbin", "/sbin")
_CONTROLLERS = frozenset({"cpu", "cpuset", "memory", "pids"})
_ROOT = 0


class RealNodeUnavailableError(ClusterError):
    """This machine cannot run a real node; the message is one sentence that says what is missing and what to do."""


@frozen
class Machine:
    """What decides whether a real node can run: `unshare` makes namespaces as a trial, and returns its error."""

    platform: str
    user: int
    programs: frozenset[str]
    hierarchies: tuple[Hierarchy, ...]
    controllers: frozenset[str]
    unshare: Callable[[], str] = field(default=lambda: "")


def require_real_node() -> None:
    """Return if a real node can run on this machine.

    Raises:
        RealNodeUnavailableError: it cannot.
    """
    problem = shortcoming(_this_machine())
    if problem is not None:
        raise RealNodeUnavailableError(problem)


def shortcoming(machine: Machine) -> str | None:
    """What `machine` lacks for a real node, as one sentence with a remedy; None if it has everything."""
    if machine.platform != "linux":
        return f"a real node needs Linux, and this is {machine.platform}: use a virtual machine, or kind"
    if machine.user != _ROOT:
        return f"a real node needs root, and this is user {machine.user}: run the command with sudo"
    missing = [program for program in PACKAGES if program not in machine.programs]
    if missing:
        packages = " ".join(dict.fromkeys(PACKAGES[program] for program in missing))
        return f"a real node needs {', '.join(missing)}: apt-get install --yes {packages}"
    lacking = sorted(_CONTROLLERS - machine.controllers)
    if lacking:
        return (
            f"a real node needs the cgroup controllers {', '.join(lacking)}, which are not mounted below"
            " /sys/fs/cgroup: mount them, or enable them in cgroup.subtree_control of the root"
        )
    refusal = machine.unshare()
    if refusal:
        return (
            f"a real node needs the right to make namespaces, and `unshare` fails with {refusal!r}: run it as root of"
            " the machine, or in a privileged container"
        )
    return None


def find_program(program: str) -> str | None:
    """The path of a program, also of one that only the administrator has on PATH."""
    return shutil.which(program, path=os.pathsep.join([os.environ.get("PATH", os.defpath), *_ADMINISTRATION]))


def _this_machine() -> Machine:
    linux = sys.platform == "linux"
    mounted = cgroups.hierarchies() if linux else ()
    return Machine(
        platform=sys.platform,
        user=os.geteuid(),
        programs=frozenset(program for program in PACKAGES if find_program(program)),
        hierarchies=mounted,
        controllers=_controllers(mounted),
        unshare=_try_unshare,
    )


def _controllers(mounted: Iterable[Hierarchy]) -> frozenset[str]:
    names = set[str]()
    for one in mounted:
        if one.version == 1:
            names.update(one.options)
        else:
            names.update(Path(one.path, "cgroup.controllers").read_text().split())
    return frozenset(names)


def _try_unshare() -> str:
    command = [find_program("unshare") or "unshare", "--mount", "--net", "--pid", "--ipc", "--uts", "--fork", "true"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr.strip() or (f"exit code {done.returncode}" if done.returncode else "")
