"""The agent of a real node: enforces network policies there, and provides volumes as directories of the node.

`python -m gpuruntime.testing.node.agent NODE KUBECONFIG VOLUMES` runs inside of the node's namespaces.
"""

import asyncio
import sys
from pathlib import Path

from gpuruntime.control import Manager, ManagerOptions, configure_logging
from gpuruntime.kube import from_kubeconfig
from gpuruntime.testing.network_policies.agent import enforce_network_policies
from gpuruntime.testing.volumes.host_path import HOST_PATH_PROVISIONER, HostPathVolumes
from gpuruntime.testing.volumes.provisioner import Provisioner, provision_volumes
from gpuruntime.testing.volumes.resizer import resize_volumes

__all__ = ["main"]


def main(argv: list[str]) -> None:
    """Run until killed: nothing in it needs a graceful end."""
    node, kubeconfig, volumes = argv[1:]
    configure_logging()
    asyncio.run(_run(node, Path(kubeconfig), Path(volumes)))


async def _run(node: str, kubeconfig: Path, volumes: Path) -> None:
    manager = Manager(from_kubeconfig(kubeconfig), ManagerOptions("node-agent"))
    enforce_network_policies(manager, node)
    provisioner = Provisioner(HOST_PATH_PROVISIONER, node, HostPathVolumes(volumes))
    provision_volumes(manager, provisioner)
    # A directory has the size of its disk: a claim that asks for more has it.
    resize_volumes(manager, provisioner)
    await manager.run()


if __name__ == "__main__":
    main(sys.argv)
