"""Metrics of leader election, with client-go's names and help."""

from collections.abc import Iterable
from typing import Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

__all__ = ["Candidate", "ElectionCollector"]


class Candidate(Protocol):
    """What a collector needs of an election."""

    @property
    def is_leader(self) -> bool:
        """Whether this process leads now."""

    @property
    def slow_paths(self) -> int:
        """How often the lease was read before it was renewed."""


class ElectionCollector(Collector):
    """Exports candidates to a registry, each with the name of its lease in the label `name`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._candidates: dict[str, Candidate] = {}
        registry.register(self)

    def add(self, lease: str, candidate: Candidate) -> None:
        """Export a candidate from now on.

        Raises:
            ValueError: another candidate for a lease of that name is exported.
        """
        if lease in self._candidates:
            raise ValueError(f"a candidate for lease {lease!r} is already measured: give each lease a name of its own")
        self._candidates[lease] = candidate

    def describe(self) -> Iterable[Metric]:
        return _families()

    def collect(self) -> Iterable[Metric]:
        if not self._candidates:
            return ()
        status, slow_paths = _families()
        for lease, candidate in self._candidates.items():
            status.add_metric((lease,), candidate.is_leader)
            slow_paths.add_metric((lease,), candidate.slow_paths)
        return status, slow_paths


def _families() -> tuple[GaugeMetricFamily, CounterMetricFamily]:
    return (
        GaugeMetricFamily(
            "leader_election_master_status",
            "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master.",
            labels=("name",),
        ),
        CounterMetricFamily(
            "leader_election_slowpath",
            "Total number of slow path exercised in renewing leader leases.",
            labels=("name",),
        ),
    )
