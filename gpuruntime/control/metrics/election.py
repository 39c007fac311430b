"""The metrics of leader election, under the names that client-go made known."""

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
        """How often the lease had to be read before it could be renewed."""


class ElectionCollector(Collector):
    """Shows candidates in a registry, each under the name of its lease in the label `name`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._candidates: dict[str, Candidate] = {}
        registry.register(self)

    def add(self, lease: str, candidate: Candidate) -> None:
        """Show a candidate from now on.

        Raises:
            ValueError: another candidate for a lease of that name is shown.
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
        GaugeMetricFamily("leader_election_master_status", "1 while this process leads, else 0.", labels=("name",)),
        CounterMetricFamily(
            "leader_election_slowpath",
            "Times that the lease had to be read before it could be renewed.",
            labels=("name",),
        ),
    )
