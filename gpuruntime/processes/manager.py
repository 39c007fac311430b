"""The all-in-one process: everything that the product does, in one event loop."""

from gpuruntime.control.manager import Manager, ManagerOptions
from gpuruntime.control.operations.health_checks import NotHealthyError
from gpuruntime.control.operations.http_site import HttpAddress
from gpuruntime.kube.credentials import Credentials
from gpuruntime.kube.errors import KubeError
from gpuruntime.web.app import install

__all__ = ["run_manager"]


async def run_manager(credentials: Credentials, address: HttpAddress) -> None:
    """Serve until SIGTERM or SIGINT; requests being answered then are finished first.

    Raises:
        ListenError: the address cannot be listened on.
    """
    manager = Manager(credentials, ManagerOptions("gpuruntime", signals=True))

    async def cluster() -> None:
        try:
            await manager.reach_server()
        except KubeError as error:
            raise NotHealthyError(str(error)) from error

    manager.operations.ready.add("cluster", cluster)
    install(manager.operations.app)
    manager.serve(manager.operations.app, address)
    await manager.run()
