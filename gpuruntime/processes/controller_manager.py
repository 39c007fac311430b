"""`gpuruntime controller-manager`: the reconcilers. One of several replicas leads, and none serves the API."""

from typing import Final

from attrs import frozen

from gpuruntime.control import HttpAddress, Manager, ManagerOptions
from gpuruntime.kube import Credentials
from gpuruntime.processes.config.accessor_section import Accessor
from gpuruntime.processes.config.keys import section
from gpuruntime.processes.config.sections import (
    LeaderElection,
    ProcessConfig,
    StorageSection,
    metrics_bind_address_key,
    min_ready_seconds_key,
    workers_key,
)
from gpuruntime.processes.config.sidecar_keys import SidecarKeys
from gpuruntime.processes.process_command import ProcessCommand
from gpuruntime.processes.wiring.credentials import cluster_credentials
from gpuruntime.processes.wiring.reconcilers import MIN_READY_SECONDS, WORKERS, install_reconcilers

__all__ = ["COMMAND", "ControllerManagerConfig", "build_controller_manager"]

_NAME: Final = "gpuruntime-controller-manager"


@frozen(kw_only=True)
class ControllerManagerConfig(ProcessConfig):
    """The config of `gpuruntime controller-manager`."""

    metrics_bind_address: HttpAddress = metrics_bind_address_key(8081)
    leader_election: LeaderElection = section(LeaderElection)
    workers: int = workers_key(WORKERS)
    min_ready_seconds: int = min_ready_seconds_key(MIN_READY_SECONDS)
    storage: StorageSection = section(StorageSection)
    accessor: Accessor = section(Accessor, "Without an image and a public key, storages have no accessors.")
    serverless: SidecarKeys = section(SidecarKeys, "Without a sidecar's image and a URL, functions have no workers.")


def build_controller_manager(credentials: Credentials, config: ControllerManagerConfig | None = None) -> Manager:
    """Build the process in a running loop; it needs no cluster until it runs."""
    chosen = config or ControllerManagerConfig()
    options = ManagerOptions(
        _NAME,
        http=chosen.metrics_bind_address,
        election=chosen.leader_election.election(chosen.namespaces),
        grace=chosen.shutdown_grace,
        signals=True,
    )
    manager = Manager(credentials, options)
    install_reconcilers(manager, chosen)
    return manager


async def _run(config: ControllerManagerConfig) -> None:
    """Reconcile while it leads, until SIGTERM or SIGINT. It waits for a cluster that does not answer.

    Raises:
        ListenError: the address cannot be listened on.
    """
    await build_controller_manager(cluster_credentials(config.kubeconfig), config).run()


COMMAND: Final = ProcessCommand(
    "controller-manager",
    "Run the reconcilers until SIGTERM or Ctrl-C. Of several replicas one leads, and the others stand by.",
    ControllerManagerConfig,
    _run,
)
