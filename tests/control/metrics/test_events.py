from attrs import field, frozen
from prometheus_client import CollectorRegistry

from gpuruntime.control.events.correlator import DropCause, EventCounters
from gpuruntime.control.metrics.events import EventCollector


@frozen
class Recording:
    """A recorder at one moment."""

    depth: int = 0
    counters: EventCounters = field(factory=EventCounters)


def test_the_counters_of_a_recorder_are_exported() -> None:
    registry, recording = CollectorRegistry(), Recording(depth=4)
    EventCollector(registry, recording)

    recording.counters.sent, recording.counters.patched, recording.counters.failed = 1, 2, 3
    recording.counters.dropped[DropCause.SPAM_FILTER] = 5

    names = ("sent_total", "patched_total", "failed_total", "waiting")
    assert [registry.get_sample_value(f"gpuruntime_events_{name}") for name in names] == [1, 2, 3, 4]
    assert registry.get_sample_value("gpuruntime_events_dropped_total", {"cause": "spam_filter"}) == 5


def test_every_drop_cause_is_exported_from_the_start() -> None:
    registry = CollectorRegistry()
    EventCollector(registry, Recording())

    shown = {
        cause: registry.get_sample_value("gpuruntime_events_dropped_total", {"cause": cause}) for cause in DropCause
    }

    assert shown == dict.fromkeys(DropCause, 0)
