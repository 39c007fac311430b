"""The config of `gpuruntime controller-manager`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from attrs import frozen

from gpuruntime.control import ElectionTiming, HttpAddress
from gpuruntime.processes.configuration.keys import Fault, key, section
from gpuruntime.processes.configuration.notations import (
    ADDRESS,
    FILE,
    FLAG,
    OBJECT_NAME,
    count,
    duration,
    show_seconds,
)
from gpuruntime.processes.configuration.sections import Logging, Namespaces
from gpuruntime.processes.reconciling import LEASE, WORKERS

__all__ = ["ControllerManagerConfig", "LeaderElection"]

_MOST_WORKERS: Final = 1000
_SECONDS: Final = duration(least=0.1)


@frozen
class LeaderElection:
    """Who of several replicas reconciles."""

    enabled: bool = key(FLAG, True, "false where there is never more than one replica")
    lease_name: str = key(OBJECT_NAME, LEASE, "the Lease in namespaces.system, which `manager` also stands for")
    lease_duration: float = key(_SECONDS, 15.0, "how long others wait for a leader that is silent; whole seconds")
    renew_deadline: float = key(_SECONDS, 10.0, "how long a leader tries to renew before it stops leading")
    retry_period: float = key(_SECONDS, 2.0, "the time between two tries")

    @property
    def timing(self) -> ElectionTiming:
        return ElectionTiming(int(self.lease_duration), self.renew_deadline, self.retry_period)

    def faults(self) -> Iterator[Fault]:
        lease, renew, retry = map(show_seconds, (self.lease_duration, self.renew_deadline, self.retry_period))
        if self.lease_duration != int(self.lease_duration):
            yield Fault("leaseDuration", f"expected whole seconds, got {lease}")
        if self.renew_deadline >= self.lease_duration:
            yield Fault("renewDeadline", f"expected less than leaseDuration ({lease}), got {renew}")
        if 1.2 * self.retry_period >= self.renew_deadline:
            yield Fault("retryPeriod", f"expected less than renewDeadline ({renew}) / 1.2, got {retry}")


@frozen
class ControllerManagerConfig:
    """What `gpuruntime controller-manager` was told."""

    kubeconfig: Path | None = key(
        FILE, None, "the cluster and who we are in it; else KUBECONFIG, ~/.kube/config, the pod's own account"
    )
    namespaces: Namespaces = section(Namespaces)
    operations_addr: HttpAddress = key(
        ADDRESS,
        HttpAddress("127.0.0.1", 8081),
        "where /livez, /readyz, /metrics and /debug are, for no stranger",
    )
    leader_election: LeaderElection = section(LeaderElection)
    workers: int = key(count(1, _MOST_WORKERS), WORKERS, "how many GPUUnits are reconciled at a time")
    shutdown_grace: float = key(duration(least=1.0), 30.0, "how long everything together gets to stop")
    logging: Logging = section(Logging)
