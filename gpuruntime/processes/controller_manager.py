"""The process of the reconcilers: one of several replicas leads, none serves the API."""

from typing import Final

from gpuruntime.control import Election, Manager, ManagerOptions
from gpuruntime.kube import Credentials
from gpuruntime.processes.cluster_access import late_credentials
from gpuruntime.processes.configuration.controller_manager import ControllerManagerConfig
from gpuruntime.processes.reconciling import install_reconcilers

__all__ = ["build_controller_manager", "run_controller_manager"]

_NAME: Final = "gpuruntime-controller-manager"


def build_controller_manager(credentials: Credentials, config: ControllerManagerConfig | None = None) -> Manager:
    """Put the process together, in a running loop; no cluster need be there."""
    chosen = config or ControllerManagerConfig()
    places, election = chosen.namespaces.places, chosen.leader_election
    options = ManagerOptions(
        _NAME,
        http=chosen.operations_addr,
        election=Election(places.system, election.lease_name, timing=election.timing) if election.enabled else None,
        grace=chosen.shutdown_grace,
        signals=True,
    )
    manager = Manager(credentials, options)
    install_reconcilers(manager, places, chosen.workers)
    return manager


async def run_controller_manager(config: ControllerManagerConfig) -> None:
    """Reconcile, where it leads, until SIGTERM or SIGINT; a cluster that is not there is waited for.

    Raises:
        ListenError: the address cannot be listened on.
    """
    await build_controller_manager(late_credentials(config.kubeconfig), config).run()
