from prometheus_client import CollectorRegistry

from gpuruntime.service.stock.metrics import ClaimCollector, ClaimCounters


def test_claims_are_counted_by_outcome_and_every_outcome_has_a_series_from_the_start() -> None:
    registry, counters = CollectorRegistry(), ClaimCounters()
    ClaimCollector(registry, counters)

    counters.ended("claimed", 0.02)
    counters.ended("claimed", 0.2)
    counters.rejected()
    counters.conflicts += 3

    shown = {
        outcome: registry.get_sample_value("gpuruntime_claim_seconds_count", {"outcome": outcome})
        for outcome in ("claimed", "insufficient", "error")
    }
    quick = {"outcome": "claimed", "le": "0.025"}
    assert shown == {"claimed": 2, "insufficient": 1, "error": 0}
    assert registry.get_sample_value("gpuruntime_claim_seconds_bucket", quick) == 1
    assert registry.get_sample_value("gpuruntime_claim_seconds_sum", {"outcome": "claimed"}) == 0.22
    assert registry.get_sample_value("gpuruntime_claim_conflicts_total") == 3
