"""Local workers of one namespace as a process that a test kills; it prints `ready` when the pod `worker` is."""

import asyncio
import math
import sys
from pathlib import Path

from gpuruntime.control import condition_true, wait_for
from gpuruntime.meta import ObjectKey
from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.local_workers import LocalWorkers


async def run(cluster: str, namespace: str, directory: str, functions: str) -> None:
    access = ClusterAccess.load(Path(cluster))
    assert access is not None
    workers = LocalWorkers(access, namespace, Path(directory), Path(functions), namespaces=(namespace,))
    async with workers.running(within=math.inf):
        await wait_for(workers.pods, ObjectKey(namespace, "worker"), condition_true("Ready"), within=120)
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(run(*sys.argv[1:]))
