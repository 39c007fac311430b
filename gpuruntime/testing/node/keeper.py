"""The keeper of a real node: a process of the machine that holds the node's namespaces, and clears up after them.

`python -m gpuruntime.testing.node.keeper NUMBER PLAN` runs until SIGTERM. Then every process of the node is killed, and
its link and cgroups are removed before the keeper ends. If the keeper is killed, the kernel kills the processes and
removes mounts and links; empty cgroups stay, which the next node of this machine removes.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys

from gpuruntime.testing.node import cgroups
from gpuruntime.testing.node.addresses import Addresses
from gpuruntime.testing.node.init import __file__ as init_script
from gpuruntime.testing.processes.supervisor import die_with

__all__ = ["main"]

_PR_SET_CHILD_SUBREAPER = 36
_NAMESPACES = ("--mount", "--net", "--pid", "--ipc", "--uts")


def main(argv: list[str]) -> int:
    """Keep one node; returns 1 if the node ended by itself."""
    addresses, plan = Addresses(int(argv[1])), argv[2]
    mounted = cgroups.hierarchies()
    # `unshare` is killed before the node's process 1, which then becomes our child: we wait for its end as well.
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    unshare = None
    try:
        cgroups.make(addresses, mounted)
        network = os.open("/proc/self/ns/net", os.O_RDONLY)
        init = [sys.executable, "-I", init_script, plan, str(network)]
        options = ("--fork", "--kill-child", "--mount-proc", "--propagation", "private")
        unshare = subprocess.Popen(
            ["unshare", *_NAMESPACES, *options, "--", *init],
            pass_fds=(network,),
            # This program has one thread, so running Python between fork and exec is safe here.
            preexec_fn=die_with(os.getpid()),  # noqa: PLW1509
        )
        unshare.wait()
        return 1
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if unshare is not None:
            unshare.kill()
        with contextlib.suppress(ChildProcessError):
            while True:
                os.wait()
        # The kernel removes it as well, a moment after the last process.
        subprocess.run(["ip", "link", "delete", addresses.link], capture_output=True, check=False)
        cgroups.remove(addresses, mounted)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
