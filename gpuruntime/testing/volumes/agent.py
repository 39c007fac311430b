"""Volumes for the fake nodes of a local cluster, as a process.

`python -m gpuruntime.testing.volumes.agent CLUSTER DIRECTORY` serves the cluster that runs in CLUSTER until SIGTERM or
SIGINT. Its classes are `fake`, which is the default, `fake-late`, `fake-fixed` and `fake-clone`; they are
deleted at the end. DIRECTORY is for its kubeconfig.
"""

import asyncio
import math
import signal
import sys
from pathlib import Path
from typing import Final

from gpuruntime.control import configure_logging
from gpuruntime.testing.cluster.access import ClusterAccess
from gpuruntime.testing.volumes.fake_volumes import FakeVolumes

__all__ = ["main"]

_NAMESPACE: Final = "kube-system"


def main(argv: list[str]) -> int:
    """Run until stopped; without a cluster, print what is missing and return 1."""
    cluster, directory = (Path(path) for path in argv[1:])
    access = ClusterAccess.load(cluster)
    if access is None:
        print(f"error: no cluster runs in {cluster}: start it first", file=sys.stderr)
        return 1
    configure_logging()
    with FakeVolumes(access, _NAMESPACE, directory).installed(is_default=True) as volumes:
        asyncio.run(_run(volumes))
    return 0


async def _run(volumes: FakeVolumes) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with volumes.running(within=math.inf):
        await stopped.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv))
