import pytest
from attrs import frozen
from prometheus_client import CollectorRegistry

from gpuruntime.control.metrics.election import ElectionCollector


@frozen
class Standing:
    """A candidate at one moment."""

    is_leader: bool
    slow_paths: int


def test_a_candidate_exports_whether_it_leads_and_its_slow_paths() -> None:
    registry = CollectorRegistry()
    collector = ElectionCollector(registry)

    collector.add("units", Standing(is_leader=True, slow_paths=3))
    collector.add("pools", Standing(is_leader=False, slow_paths=0))

    assert registry.get_sample_value("leader_election_master_status", {"name": "units"}) == 1
    assert registry.get_sample_value("leader_election_master_status", {"name": "pools"}) == 0
    assert registry.get_sample_value("leader_election_slowpath_total", {"name": "units"}) == 3
    assert registry.get_sample_value("leader_election_slowpath_total", {"name": "pools"}) == 0


def test_a_second_candidate_for_a_lease_is_refused() -> None:
    collector = ElectionCollector(CollectorRegistry())
    collector.add("units", Standing(is_leader=True, slow_paths=0))

    with pytest.raises(ValueError, match="'units'"):
        collector.add("units", Standing(is_leader=False, slow_paths=0))
