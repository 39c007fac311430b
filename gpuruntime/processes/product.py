"""The product in one manager: all reconcilers, and all that carries out requests, before anything of it runs."""

from datetime import timedelta
from typing import Final

from gpuruntime.control import Election, Manager, ManagerOptions
from gpuruntime.kube import Credentials
from gpuruntime.processes.desk import Desk, install_desk
from gpuruntime.processes.places import Places
from gpuruntime.processes.reconciling import LEASE, install_reconcilers
from gpuruntime.service.operations.controller import DEFAULT_KEEP

__all__ = ["build_product"]

_NAME: Final = "gpuruntime"


def build_product(credentials: Credentials, places: Places | None = None, *, keep: timedelta = DEFAULT_KEEP) -> Desk:
    """Put the product together, in a running loop; no cluster need be there.

    Reconcilers run in the process that holds the lease, one of these or a controller-manager; requests are carried out
    in every one of these. `keep` is how long the Operation of a request that has ended is kept.
    """
    chosen = places or Places()
    election = Election(chosen.system, LEASE)
    manager = Manager(credentials, ManagerOptions(_NAME, election=election, signals=True))
    install_reconcilers(manager, chosen)
    return install_desk(manager, credentials, chosen, identity=election.identity, keep=keep)
