"""Processes that own a real node, to be ended by a test."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from attrs import frozen

from tests.testing.node.pods import OWN_TAINTS

__all__ = ["CLUSTER", "NODE", "Owner", "owner_of_a_node"]

_REPORT: Final = """
    layout = node.layout
    report = {"number": layout.addresses.number, "directory": str(layout.directory)}
    print(json.dumps(report), flush=True)
    sys.stdin.read()
"""
NODE: Final = f"""
import json, sys
from pathlib import Path
from gpuruntime.testing import ClusterAccess, RealNode

with RealNode(ClusterAccess.load(Path(sys.argv[1])), name=sys.argv[2], taints={OWN_TAINTS}) as node:
    node.images.add("busybox:1.36", base="busybox")
{_REPORT}
"""
CLUSTER: Final = f"""
import json, sys
from gpuruntime.testing import LocalCluster

with LocalCluster(nodes=(), real_nodes=1) as cluster:
    node = cluster.real_nodes[0]
{_REPORT}
"""


@frozen
class Owner:
    """The process that started a node; its node's number and directory, and the processes in between."""

    process: subprocess.Popen[str]
    number: int
    directory: Path
    supervisor: int
    keeper: int
    init: int


@contextmanager
def owner_of_a_node(temporary: Path, program: str, *arguments: str) -> Iterator[Owner]:
    """Run NODE, with the directory of a cluster and a name, or CLUSTER. Their temporary files are in `temporary`."""
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            report = json.loads(process.stdout.readline())
            supervisor, keeper = _find_keeper(process.pid)
            [unshare] = _children(keeper)
            [init] = _children(unshare)
            yield Owner(process, report["number"], Path(report["directory"]), supervisor, keeper, init)
        finally:
            process.kill()


def _find_keeper(owner: int) -> tuple[int, int]:
    for supervisor in _children(owner):
        for child in _children(supervisor):
            if "gpuruntime.testing.node.keeper" in Path(f"/proc/{child}/cmdline").read_text().split("\0"):
                return supervisor, child
    raise AssertionError(f"process {owner} has no supervisor with a keeper")


def _children(process: int) -> list[int]:
    tasks = Path(f"/proc/{process}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]
