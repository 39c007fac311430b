import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from gpuruntime.control.histogram import Histogram
from gpuruntime.control.metrics.queues import QueueCollector
from gpuruntime.control.queueing.counters import DURATION_BUCKETS, QueueCounters
from gpuruntime.control.queueing.priorities import LOW_PRIORITY
from gpuruntime.control.queueing.workqueue import WorkQueue
from gpuruntime.testing.virtual_time import run_virtual


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(name, {"name": "units", "controller": "units", **labels})


def test_buckets_have_the_labels_that_go_writes() -> None:
    bounds = [bound for bound, _ in Histogram(DURATION_BUCKETS).cumulative()]

    assert bounds[:6] == ["1e-08", "1e-07", "1e-06", "9.999999999999999e-06", "9.999999999999999e-05", "0.001"]
    assert bounds[6:] == ["0.01", "0.1", "1.0", "10.0", "100.0", "1000.0", "+Inf"]


@given(st.lists(st.floats(0, 1e5)))
@settings(deadline=None)
def test_a_bucket_counts_values_up_to_its_bound(observed: list[float]) -> None:
    durations = Histogram(DURATION_BUCKETS)

    for seconds in observed:
        durations.observe(seconds)

    counts = [count for _, count in durations.cumulative()]
    assert counts[:-1] == [sum(seconds <= bound for seconds in observed) for bound in DURATION_BUCKETS]
    assert counts[-1] == len(observed)
    assert durations.total == sum(observed)


def test_priorities_beyond_the_twenty_fifth_share_one_series() -> None:
    async def story() -> CollectorRegistry:
        registry = CollectorRegistry()
        queue = WorkQueue[int]("units")
        QueueCollector(registry).add(queue)
        for number in range(40):
            queue.add(number, priority=number)
        return registry

    registry = run_virtual(story())

    assert value(registry, "workqueue_depth", priority="24") == 1
    assert value(registry, "workqueue_depth", priority="25") is None
    assert value(registry, "workqueue_depth", priority="exceeded_cardinality_limit") == 15


def test_depth_returns_to_zero_whatever_series_a_priority_is_in() -> None:
    counters = QueueCounters()

    for change in (1, -1):
        for priority in range(40):
            counters.count_depth(priority, change)

    assert set(counters.depth.values()) == {0}
    assert counters.depth_of_others == 0


def test_a_queue_exports_its_counters() -> None:
    async def story() -> CollectorRegistry:
        registry = CollectorRegistry()
        queue = WorkQueue[str]("units")
        QueueCollector(registry).add(queue)
        queue.add("first")
        queue.add("first")
        queue.add("held")
        queue.add("queued", priority=LOW_PRIORITY)
        queue.add_after("later", 60)
        await asyncio.sleep(2)
        await queue.get()
        await asyncio.sleep(0.5)
        queue.done("first")
        await queue.get()
        await asyncio.sleep(4)
        return registry

    registry = run_virtual(story())

    assert value(registry, "workqueue_adds_total") == 3
    assert value(registry, "workqueue_retries_total") == 1
    assert value(registry, "workqueue_depth", priority="0") == 0
    assert value(registry, "workqueue_depth", priority="-100") == 1
    assert value(registry, "workqueue_queue_duration_seconds_count") == 2
    assert value(registry, "workqueue_queue_duration_seconds_sum") == 4.5
    assert value(registry, "workqueue_work_duration_seconds_bucket", le="0.1") == 0
    assert value(registry, "workqueue_work_duration_seconds_bucket", le="1.0") == 1
    assert value(registry, "workqueue_work_duration_seconds_sum") == 0.5


def test_unfinished_work_is_current_at_the_scrape() -> None:
    async def story() -> list[float | None]:
        registry = CollectorRegistry()
        queue = WorkQueue[str]("units")
        QueueCollector(registry).add(queue)
        for key in ("long", "short"):
            queue.add(key)
            await queue.get()
            await asyncio.sleep(3)
        names = ("workqueue_unfinished_work_seconds", "workqueue_longest_running_processor_seconds")
        return [value(registry, name) for name in names]

    assert run_virtual(story()) == [9.0, 6.0]


async def test_an_idle_queue_has_every_series_from_the_start() -> None:
    registry = CollectorRegistry()
    QueueCollector(registry).add(WorkQueue[str]("units"))

    samples = {
        family.name: [sample.value for sample in family.samples]
        for family in text_string_to_metric_families(generate_latest(registry).decode())
    }

    assert len(samples) == 7
    assert all(values and not any(values) for values in samples.values())


async def test_queues_share_the_metrics_of_a_registry() -> None:
    registry = CollectorRegistry()
    collector = QueueCollector(registry)
    for name in ("units", "pools"):
        collector.add(WorkQueue[str](name))

    text = generate_latest(registry).decode()

    assert text.count("# TYPE workqueue_depth gauge") == 1
    assert 'workqueue_adds_total{controller="pools",name="pools"} 0.0' in text
    assert 'workqueue_adds_total{controller="units",name="units"} 0.0' in text


async def test_a_second_queue_of_a_name_is_refused_until_the_first_is_removed() -> None:
    collector = QueueCollector(CollectorRegistry())
    first, second = WorkQueue[str]("units"), WorkQueue[str]("units")
    collector.add(first)

    with pytest.raises(ValueError, match="'units'"):
        collector.add(second)
    collector.remove(first)
    collector.add(second)


def test_a_second_collector_in_a_registry_is_refused() -> None:
    registry = CollectorRegistry()
    QueueCollector(registry)

    with pytest.raises(ValueError, match="Duplicated timeseries"):
        QueueCollector(registry)
