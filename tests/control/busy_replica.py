"""A replica, as a process of its own, that always has writes under way while it leads: patches without preconditions,
and events. It prints a line when it begins to write and one when it has stopped. SIGUSR1 blocks its loop for longer
than a lease.
"""

import asyncio
import signal
import sys
import time
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path

from gpuruntime.control import Election, ElectionTiming, Manager, ManagerOptions
from gpuruntime.kube import KubeError, MergePatch, from_kubeconfig
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.kube.builtin.events import ObjectReference

TIMING = ElectionTiming(lease=2, renew=1.3, retry=0.3)
LEASE, JOURNAL = "busy", "journal"
WRITERS = 8
BLOCK_SECONDS = 2.0 * TIMING.lease
# Some of the writers are at work at any moment and some are about to be, and the server has time for other tests.
_PACE = 0.02


def build(identity: str, namespace: str, kubeconfig: str) -> Manager:
    election = Election(namespace, LEASE, identity=identity, timing=TIMING)
    manager = Manager(from_kubeconfig(Path(kubeconfig)), ManagerOptions(identity, election=election))

    async def write(number: int) -> None:
        for turn in count():
            with suppress(KubeError):
                await manager.client.patch(
                    ConfigMap, JOURNAL, namespace, MergePatch({"data": {str(number): str(turn)}})
                )
            await asyncio.sleep(_PACE)

    async def report() -> None:
        print("writing", flush=True)
        try:
            for turn in count():
                about = ObjectReference(
                    api_version="v1", kind="ConfigMap", namespace=namespace, name=f"{identity}-{turn}"
                )
                manager.recorder.record(about, "Normal", "Turned", "WorkItem", "one more")
                await asyncio.sleep(_PACE)
        finally:
            print("stopped", flush=True)

    for number in range(WRITERS):
        manager.add(partial(write, number), f"writer {number}")
    manager.add(report, "reporter")
    return manager


def block() -> None:
    time.sleep(BLOCK_SECONDS)
    print(f"blocked until {time.time()}", flush=True)


async def main(identity: str, namespace: str, kubeconfig: str) -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, block)
    await build(identity, namespace, kubeconfig).run()


if __name__ == "__main__":
    loop_name, *rest = sys.argv[1:]
    if loop_name == "uvloop":
        import uvloop

        uvloop.run(main(*rest))
    else:
        asyncio.run(main(*rest))
