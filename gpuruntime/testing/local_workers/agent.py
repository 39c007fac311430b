"""Workers of functions for the fake nodes of a local cluster, as a process.

`python -m gpuruntime.testing.local_workers.agent CLUSTER DIRECTORY FUNCTIONS` serves the cluster that runs in CLUSTER
until SIGTERM or SIGINT. It runs functions of the directory FUNCTIONS only. DIRECTORY is for its kubeconfig and logs.
"""

import asyncio
import math
import signal
import sys
from pathlib import Path
from typing import Final

from gpuruntime.control import configure_logging
from gpuruntime.testing.cluster.access import ClusterAccess
from gpuruntime.testing.local_workers.local_workers import LocalWorkers

__all__ = ["main"]

_NAMESPACE: Final = "kube-system"


def main(argv: list[str]) -> int:
    """Run until stopped; without a cluster, print what is missing and return 1."""
    cluster, directory, functions = (Path(path) for path in argv[1:])
    access = ClusterAccess.load(cluster)
    if access is None:
        print(f"error: no cluster runs in {cluster}: start it first", file=sys.stderr)
        return 1
    configure_logging()
    asyncio.run(_run(LocalWorkers(access, _NAMESPACE, directory, functions)))
    return 0


async def _run(workers: LocalWorkers) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with workers.running(within=math.inf):
        await stopped.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv))
