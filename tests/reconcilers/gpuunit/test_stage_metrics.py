from collections.abc import Mapping

from attrs import evolve
from prometheus_client import CollectorRegistry

from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec, GPUUnitStatus, UnitStages
from gpuruntime.meta.conditions import Condition
from gpuruntime.meta.objects import ObjectMeta
from gpuruntime.reconcilers.gpuunit.stage_metrics import StageCollector, StageTimes

NEW = GPUUnit(
    ObjectMeta(name="a", namespace="apps", uid="1", creation_timestamp="2026-01-01T00:00:00Z"), GPUUnitSpec("g1.1")
)
PROGRESSING = (Condition("Ready", "False", "UnitProgressing"),)


def at(second: int) -> str:
    return f"2026-01-01T00:00:{second:02}Z"


def written(*seconds: int) -> GPUUnitStatus:
    """The status of a unit that reached stages at these seconds, in their order."""
    stages = UnitStages(*map(at, seconds)) if seconds else None
    return GPUUnitStatus(stages=stages, conditions=PROGRESSING)


def story(times: StageTimes, *statuses: GPUUnitStatus, unit: GPUUnit = NEW) -> GPUUnit:
    """The statuses that a controller writes for a unit, one after the other."""
    for status in statuses:
        times.status_written(unit, status, "active")
        unit = evolve(unit, status=status)
    return unit


def counts(times: StageTimes) -> Mapping[str, int]:
    return {stage: sum(durations.counts) for (stage, role), durations in times.durations.items() if role == "active"}


def test_each_stage_counts_from_the_creation_of_the_unit_when_it_is_first_written() -> None:
    registry, times = CollectorRegistry(), StageTimes()
    StageCollector(registry, times)

    story(times, written(), written(1), written(1, 4, 9))

    sums = {
        stage: registry.get_sample_value("gpuruntime_unit_stage_seconds_sum", {"stage": stage, "role": "active"})
        for stage in ("scheduled", "started", "ready")
    }
    assert sums == {"scheduled": 1, "started": 4, "ready": 9}
    assert counts(times) == {"scheduled": 1, "started": 1, "ready": 1}
    stock = {"stage": "ready", "role": "stock"}
    assert registry.get_sample_value("gpuruntime_unit_stage_seconds_count", stock) == 0


def test_a_later_pod_of_a_unit_counts_for_nothing_that_an_earlier_one_reached() -> None:
    times = StageTimes()

    story(times, written(), written(1), written(), written(20, 21, 22), written(), written(40, 41, 42))

    assert counts(times) == {"scheduled": 1, "started": 1, "ready": 1}
    assert times.durations["scheduled", "active"].total == 1


def test_a_new_leader_counts_no_unit_that_has_a_status() -> None:
    unit = story(StageTimes(), written(), written(1))

    times = StageTimes()
    story(times, written(1, 2, 3), written(), written(10, 11, 12), unit=unit)

    assert counts(times) == {"scheduled": 0, "started": 0, "ready": 0}


def test_a_leader_that_is_back_does_not_count_what_another_one_wrote_meanwhile() -> None:
    times = StageTimes()
    unit = story(times, written(), written(1))

    written_by_another = evolve(unit, status=written(1, 2, 3))
    story(times, written(), written(10, 11, 12), unit=written_by_another)

    assert counts(times) == {"scheduled": 1, "started": 0, "ready": 0}


def test_a_unit_that_was_made_again_under_its_name_is_another_one() -> None:
    times = StageTimes()
    story(times, written(), written(1))
    times.forget(NEW.key)

    again = evolve(NEW, metadata=evolve(NEW.metadata, uid="2"))
    story(times, written(), written(5, 6, 7), unit=again)

    assert counts(times) == {"scheduled": 2, "started": 1, "ready": 1}


def test_a_clock_that_is_behind_makes_no_negative_time() -> None:
    times = StageTimes()
    late = evolve(NEW, metadata=evolve(NEW.metadata, creation_timestamp=at(30)))

    story(times, written(1, 2, 3), unit=late)

    assert times.durations["ready", "active"].total == 0
    assert counts(times)["ready"] == 1
